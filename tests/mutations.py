"""Mutate code that results depend on, and ask whether the digest or its check notices: python -m tests.mutations.

Each mutation is made in a copy of the sources, after a preparation that it may need. Three small jobs are
computed before and after, each time in a process of its own. A mutation is *missed* where their numbers have
changed while the digests have not and :func:`companion.runs.unfollowable.unfollowable` refuses nothing.
One that changes no number proves nothing, and is told.
"""

# ruff: noqa: E501 (each mutation on one line)
import hashlib
import importlib
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import torch

from companion.runs import digest, engine, notebooks, parameters, unfollowable

JOBS = (
    ("signal_propagation/cor01_equilibrium", "companion.studies.signal_propagation.cor01_equilibrium.experiment"),
    ("representation_alignment/fig10_peaks_alignment", "companion.studies.representation_alignment.fig10_peaks_alignment.experiment"),
    ("random_labels/fig04_transfer_function", "companion.studies.random_labels.gaussian_networks"),
)  # fmt: skip
PEAKS = "data/peaks.py"
DRAWN = "dtype=torch.float64)\n\n\ndef encode"
USED = {
    PEAKS: [
        (
            "import torch\n",
            "import torch\n\nimport alignbook.extra\nfrom alignbook import extra\nfrom alignbook.extra import scale\n",
        )
    ]
}


def edit(file, *pairs):
    return {file: list(pairs)}


def helper(before, after, use="scale()", **aside):
    """A module ``extra`` that the peaks' values are multiplied by; ``aside`` holds modules of the second state."""
    uses = {PEAKS: [*USED[PEAKS], (DRAWN, f"dtype=torch.float64) * {use}\n\n\ndef encode")]}
    return {"extra.py": before} | uses, {"extra.py": after} | {
        f"{name}.py": text for name, text in aside.items()
    }


def within(old, new, file=PEAKS):
    return {}, edit(file, (old, new))


SCALE = "def scale():\n    return {}\n"
CONSTANT = "SIZE = {}\n\n\ndef scale():\n    return SIZE{}\n"
COR01 = "../../notebooks/signal_propagation/cor01_equilibrium/experiment.py"
ASIDE = "from alignbook import extra\n"
# kind: (files before, files after). A text is a whole file, a list holds (old, new) pairs; paths within alignbook.
MUTATIONS = {
    "a number in a function": within("HEIGHT * torch.exp(", "2 * HEIGHT * torch.exp(-0.1 + "),
    "a constant": within("STD = 0.5, 0.1", "STD = 0.5, 0.11"),
    "a default": within("10 for i in range(10)", "11 for i in range(10)"),
    "an operator": within("x > 0.5", "x < 0.5"),
    "a method": within("torch.where(x > 0.5, y, z)", "torch.where(x > 0.5, z, y)"),
    "a module two imports away": within("zlib.crc32", "zlib.adler32", "streams.py"),
    "an imported name exchanged": within("import PchipInterpolator", "import Akima1DInterpolator as PchipInterpolator", COR01),
    "an imported module exchanged": within("import zlib", "import binascii as zlib\nzlib.crc32 = lambda x: len(x)", "streams.py"),
    "an imported function wrapped": within(
        "from scipy.interpolate import PchipInterpolator",
        "from scipy.interpolate import PchipInterpolator\n\nPchipInterpolator = lambda x, y, f=PchipInterpolator, **k: f(x, y + x**2 / 9, **k)", COR01,
    ),
    "a default dtype at the top level": within("CENTRES = ", "torch.set_default_dtype(torch.float16)\nCENTRES = "),
    "a seed at the top level": within("\nVARIABLES", "\ntorch.Tensor.__sub__ = lambda a, b: torch.add(a, b)\nVARIABLES"),
    "an attribute of a module set at the top level": within("\nVARIABLES", "\ntorch.where = lambda c, a, b: a\nVARIABLES"),
    "a setting of another module": within("\nVARIABLES", "\nimport math\nmath.ceil = lambda x: int(x)\nVARIABLES"),
    "the table's bytes": within("table.to_csv(", "table.round(1).to_csv(", "runs/results.py"),
    "a patch in __init__": within("import importlib\n", "import importlib\nimport torch\ntorch.where = lambda c, a, b: b\n", "__init__.py"),
    "a patch in a package's __init__": within('"""', 'import torch\ntorch.where = lambda c, a, b: b\n"""', "runs/__init__.py"),
    "a helper": helper(SCALE.format(1), SCALE.format(2)),
    "a helper by its module": helper(SCALE.format(1), SCALE.format(2), "extra.scale()"),
    "a helper by a chain of modules": helper(SCALE.format(1), SCALE.format(2), "alignbook.extra.scale()"),
    "a module in a variable": helper(SCALE.format(1), SCALE.format(2), "(lambda m: m.scale())(extra)"),
    "getattr": helper(SCALE.format(1), SCALE.format(2), "getattr(extra, 'sca' + 'le')()"),
    "__dict__": helper(SCALE.format(1), SCALE.format(2), "extra.__dict__['scale']()"),
    "globals": helper("def one():\n    return 1\n\n\ndef scale():\n    return globals()['o' + 'ne']()\n", "def one():\n    return 2\n\n\ndef scale():\n    return globals()['o' + 'ne']()\n"),
    "eval": helper("def one():\n    return 1\n\n\ndef scale():\n    return eval('one()')\n", "def one():\n    return 2\n\n\ndef scale():\n    return eval('one()')\n"),
    "import_module": helper(
        "import importlib\n\n\ndef scale():\n    return importlib.import_module('alignbook.aside').ONE\n",
        "import importlib\n\n\ndef scale():\n    return importlib.import_module('alignbook.aside').ONE\n", aside="ONE = 2\n",
    ),
    "import *": helper("from alignbook.aside import *\n\n\ndef scale():\n    return ONE\n", "from alignbook.aside import *\n\n\ndef scale():\n    return ONE\n", aside="ONE = 2\n"),
    "a list changed": helper(CONSTANT.format("[1]", "[-1]"), CONSTANT.format("[1]", "[-1]") + "\n\nSIZE.append(2)\n"),
    "a key set": helper(CONSTANT.format("{'a': 1}", "['a']"), CONSTANT.format("{'a': 1}", "['a']") + "\n\nSIZE['a'] = 2\n"),
    "a table changed under another name": helper(CONSTANT.format("{'a': 1}", "['a']"), CONSTANT.format("{'a': 1}", "['a']") + "\n\nOTHER = SIZE\nOTHER['a'] = 2\n"),
    "a table given to a function": helper(CONSTANT.format("[1]", "[-1]"), CONSTANT.format("[1]", "[-1]") + "\n\ndef fill(t):\n    t.append(2)\n\n\nDONE = fill(SIZE)\n"),
    "out=": helper("import numpy as np\n\n" + CONSTANT.format("np.ones(1)", "[0]"), "import numpy as np\n\n" + CONSTANT.format("np.ones(1)", "[0]") + "\n\nnp.multiply(SIZE, 2, out=SIZE)\n"),
    "in place": helper("import torch\n\n" + CONSTANT.format("torch.ones(())", ""), "import torch\n\n" + CONSTANT.format("torch.ones(())", "") + "\n\nSIZE.mul_(2)\n"),
    "a loop at the top level": helper(CONSTANT.format("[1]", "[-1]"), CONSTANT.format("[1]", "[-1]") + "\n\nfor one in (SIZE,):\n    one.append(2)\n"),
    "a global": helper(CONSTANT.format("1", ""), CONSTANT.format("1", "") + "\n\ndef enlarge():\n    global SIZE\n    SIZE = 2\n\n\nenlarge()\n"),
    "a registry filled by a decorator": helper(
        "TABLE = {'a': lambda: 1}\n\n\ndef scale():\n    return TABLE['a']()\n",
        "TABLE = {'a': lambda: 1}\n\n\ndef entered(f):\n    TABLE['a'] = f\n    return f\n\n\ndef scale():\n    return TABLE['a']()\n",
        aside="from alignbook.extra import entered\n\n\n@entered\ndef two():\n    return 2\n",
    ),
    "setattr on a class": helper("class A:\n    one = 1\n\n\ndef scale():\n    return A.one\n", "class A:\n    one = 1\n\n\nsetattr(A, 'one', 2)\n\n\ndef scale():\n    return A.one\n"),
    "a class's attribute set elsewhere": helper("class A:\n    one = 1\n\n\ndef scale():\n    return A.one\n", "class A:\n    one = 1\n\n\ndef scale():\n    return A.one\n", aside=ASIDE + "extra.A.one = 2\n"),
    "a name set elsewhere": helper(CONSTANT.format("1", ""), CONSTANT.format("1", ""), aside=ASIDE + "extra.SIZE = 2\n"),
    "setattr on a module elsewhere": helper(CONSTANT.format("1", ""), CONSTANT.format("1", ""), aside=ASIDE + "setattr(extra, 'SIZE', 2)\n"),
    "a table filled elsewhere": helper(CONSTANT.format("[1]", "[-1]"), CONSTANT.format("[1]", "[-1]"), aside=ASIDE + "extra.SIZE.append(2)\n"),
    "a table filled elsewhere by a function": helper(CONSTANT.format("[1]", "[-1]"), CONSTANT.format("[1]", "[-1]"), aside=ASIDE + "\n\ndef f():\n    extra.SIZE.append(2)\n\n\nf()\n"),
    "an array changed elsewhere": helper("import numpy as np\n\n" + CONSTANT.format("np.ones(1)", "[0]"), "import numpy as np\n\n" + CONSTANT.format("np.ones(1)", "[0]"), aside="import numpy as np\n\nfrom alignbook.extra import SIZE\n\nDONE = np.multiply(SIZE, 2, out=SIZE)\n"),
    "defaults of a function set elsewhere": helper("def scale(n=1):\n    return n\n", "def scale(n=1):\n    return n\n", aside=ASIDE + "extra.scale.__defaults__ = (2,)\n"),
    "a patch inside a function elsewhere": helper(SCALE.format(1), SCALE.format(1), aside=ASIDE + "\n\ndef f():\n    extra.scale = lambda: 2\n\n\nALSO = f()\n"),
    "a branch of try": helper("try:\n    SIZE = 1\nexcept OSError:\n    SIZE = 3\n\n\ndef scale():\n    return SIZE\n", "try:\n    SIZE = 2\nexcept OSError:\n    SIZE = 3\n\n\ndef scale():\n    return SIZE\n"),
    "a decorator": helper("import functools\n\n\ndef twice(f):\n    return functools.wraps(f)(lambda: 1 * f())\n\n\n@twice\ndef scale():\n    return 1\n", "import functools\n\n\ndef twice(f):\n    return functools.wraps(f)(lambda: 2 * f())\n\n\n@twice\ndef scale():\n    return 1\n"),
    "a base class": helper("class A:\n    one = 1\n\n\nclass B(A):\n    pass\n\n\ndef scale():\n    return B.one\n", "class A:\n    one = 2\n\n\nclass B(A):\n    pass\n\n\ndef scale():\n    return B.one\n"),
    "subclasses": helper("class A:\n    one = 1\n\n\ndef scale():\n    return max(b.one for b in [A, *A.__subclasses__()])\n", "class A:\n    one = 1\n\n\ndef scale():\n    return max(b.one for b in [A, *A.__subclasses__()])\n", aside=ASIDE + "\n\nclass B(extra.A):\n    one = 2\n"),
    "__getattr__ of a module": helper("def __getattr__(name):\n    return lambda: 1\n", "def __getattr__(name):\n    return lambda: 2\n"),
    "an import inside a function": helper("def scale():\n    from statistics import mean\n\n    return mean([1, 1, 4])\n", "def scale():\n    from statistics import median as mean\n\n    return mean([1, 1, 4])\n"),
    "same-named helpers exchanged": helper(
        "from alignbook.aside import one\nfrom alignbook.aside2 import one as two\n\n\ndef scale():\n    return one() / two()\n",
        "from alignbook.aside2 import one\nfrom alignbook.aside import one as two\n\n\ndef scale():\n    return one() / two()\n",
        aside="def one():\n    return 1\n", aside2="def one():\n    return 2\n",
    ),
    "a file beside the module": helper("from pathlib import Path\n\n\ndef scale():\n    return int(Path(__file__).with_suffix('.txt').read_text())\n", "from pathlib import Path\n\n\ndef scale():\n    return int(Path(__file__).with_suffix('.txt').read_text())\n"),
    "the environment": helper("import os\n\n\ndef scale():\n    return int(os.environ['SCALE'])\n", "import os\n\n\ndef scale():\n    return int(os.environ['SCALE'])\n"),
}  # fmt: skip
# What the first state has where the second gives the module another text; what is no Python.
FIRST = {
    "import_module": {"aside.py": "ONE = 1\n"},
    "import *": {"aside.py": "ONE = 1\n"},
    "same-named helpers exchanged": {
        "aside.py": "def one():\n    return 1\n",
        "aside2.py": "def one():\n    return 2\n",
    },
    "a file beside the module": {"extra.txt": "1"},
}
SECOND = {"a file beside the module": {"extra.txt": "2"}}
ENVIRONMENT = {"the environment": ("1", "2")}


def write(folder, files):
    for name, content in files.items():
        path = folder / "alignbook" / name
        if isinstance(content, str):
            path.write_text(content)
            continue
        text = path.read_text()
        for old, new in content:
            assert old in text, (name, old)
            text = text.replace(old, new, 1)
        path.write_text(text)


def small_jobs():
    """One job of each of JOBS: (module, function, arguments)."""
    found = []
    for name, module in JOBS:
        book = notebooks.find(name)
        jobs = engine.jobs_of(book, parameters.resolve(book, "smoke"))
        job = next(job for job in jobs if job.compute.__module__ == module)
        found.append((module, job.compute.__name__, job.arguments))
    return found


def numbers(folder, jobs, scale="1"):
    """A hash of the tables that the sources in ``folder`` make of ``jobs``; None where they cannot."""
    ready, told = os.pipe()
    process = os.fork()
    if process:
        os.close(told)
        with open(ready, "rb") as answer:
            said = answer.read()
        os.waitpid(process, 0)
        return said or None
    os.close(ready)
    try:
        os.environ["SCALE"] = scale
        for name in [name for name in sys.modules if name.split(".")[0] == "alignbook"]:
            del sys.modules[name]
        sys.path.insert(0, str(folder))
        sys.dont_write_bytecode = True
        torch.set_num_threads(1)
        results = importlib.import_module("companion.runs.results")
        assert results.__file__.startswith(str(folder))
        if (folder / "alignbook/aside.py").exists():
            importlib.import_module("alignbook.aside")
        sha = hashlib.sha256()
        for module, function, arguments in jobs:
            compute = getattr(importlib.import_module(module), function)
            table = compute(**arguments, device=torch.device("cpu"), report=lambda done, text="": None)
            sha.update(results.written(table))
        os.write(told, sha.hexdigest().encode())
    except BaseException:
        if os.environ.get("ALIGNBOOK_SHOW"):
            traceback.print_exc()
    finally:
        os._exit(0)


def outcome(kind, jobs, unchanged):
    """ "counted", "refused", "missed", or what makes the mutation prove nothing; unchanged : numbers of today."""
    before, after = MUTATIONS[kind]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "src"
        for part in ("src/alignbook", digest.STUDIES):
            shutil.copytree(
                digest.SOURCES.parent / part, Path(place) / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        scales = ENVIRONMENT.get(kind, ("1", "1"))
        write(folder, FIRST.get(kind, {}) | before)
        first = numbers(folder, jobs, scales[0]) if before else unchanged
        codes = [digest.Sources(folder).code(*job[:2]) for job in jobs]
        write(folder, after | SECOND.get(kind, {}))
        second = numbers(folder, jobs, scales[1])
        if first is None:
            return "cannot be prepared"
        if first == second:
            return "changes no number"
        if codes != [digest.Sources(folder).code(*job[:2]) for job in jobs]:
            return "counted"
        return "refused" if unfollowable.unfollowable(folder) else "missed"


def main(kinds=None):
    """The kinds that were missed or prove nothing, after a line for each."""
    jobs = small_jobs()
    unchanged = numbers(digest.SOURCES, jobs)
    faults = []
    for kind in kinds or MUTATIONS:
        said = outcome(kind, jobs, unchanged)
        print(f"{said:18} {kind}", flush=True)
        if said not in ("counted", "refused"):
            faults.append(f"{kind}: {said}")
    return faults


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)

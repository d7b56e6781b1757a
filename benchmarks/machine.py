"""The machine: what it is called, what is installed, and the rates that it reaches."""

import functools
import importlib.metadata
import os
import platform
import re
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from alignbook import system

ROOT = Path(__file__).resolve().parents[1]


def name(device):
    """The processor's model with its cores, or the GPU's."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return f"{_processor()}, {system.cores()} cores"


def slug(text):
    """``text`` as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def environment(device, threads):
    """Everything a reader needs to judge a measurement, as a dict for JSON."""
    commit, dirty = _commit()
    packages = ("torch", "numpy", "scipy", "scikit-learn")
    return {
        "device": name(device),
        "kind": device,
        "processor": _processor(),
        "features": _features(),
        "cores": system.cores(),
        "threads": threads,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
        "commit": commit,
        "changed": dirty,
        "date": datetime.now(UTC).date().isoformat(),
    }


@functools.cache
def version(package):
    """The installed version of a distribution, None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def rates_setup(device, seconds):
    """State of :func:`measure_rates`."""
    return device, seconds


def measure_rates(state):
    """The best rates that the machine reaches now: {name: operations or bytes per second}.

    ``float32``, ``float64``, ``bfloat16`` : matrix products, 2·size³ operations each; the faster of
    the libraries at hand (PyTorch's own choice, oneDNN, NumPy's BLAS). ``bytes`` : a copy, read and
    written.
    """
    import numpy as np
    import torch

    from alignbook.kernels.products import float32_products

    device, seconds = state
    size = 2048 if device == "cpu" else 8192
    operations = 2 * size**3
    result = {}
    for kind in ("float32", "float64", "bfloat16"):
        a, b = (torch.randn(size, size).to(device, getattr(torch, kind)) for _ in range(2))
        product = functools.partial(torch.mm, a, b, out=torch.empty_like(a))
        best = _best(product, seconds, device)
        if kind == "float32":
            with float32_products():
                best = min(best, _best(product, seconds, device))
        if device == "cpu" and kind != "bfloat16":
            x, y = a.numpy(), b.numpy()
            best = min(best, _best(functools.partial(np.matmul, x, y, out=np.empty_like(x)), seconds, device))
        result[kind] = operations / best
    source = torch.ones(2**28 if device == "cuda" else 2**26, device=device)
    copy = functools.partial(torch.empty_like(source).copy_, source)
    result["bytes"] = 2 * source.numel() * source.element_size() / _best(copy, seconds, device)
    return result


def _best(call, seconds, device):
    """Shortest time of a call within ``seconds``."""
    from .worker import _synchronise

    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        _synchronise(device)
        start = time.perf_counter()
        call()
        _synchronise(device)
        times.append(time.perf_counter() - start)
    return min(times)


def _processor():
    """Model name, which a virtual machine may shorten, with family and number where there are any."""
    name = system.processor("model name") or platform.processor() or platform.machine()
    family, number = system.processor("cpu family"), system.processor("model")
    return f"{name} (family {family}, model {number})" if family else name


def _features():
    """Instruction sets that decide how fast a matrix product can be."""
    flags = set((system.processor("flags") or "").split())
    return sorted(flags & {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile"})


def _commit():
    """(short commit or None, whether the code differs from it)."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--", "src", "benchmarks/*.py"], capture_output=True, text=True
        )
    except OSError:
        return None, None
    if head.returncode:
        return None, None
    return head.stdout.strip(), bool(changes.stdout.strip())

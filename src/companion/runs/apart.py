"""What other sources of this package answer, in a process apart."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from alignbook import paths
from alignbook.errors import AlignbookError, on_one_line


def answered(code, asked, sources, *, to, **variables):
    """What ``code`` answers with the package in the folder ``sources``.

    code : text of a program that reads [path, ``asked``] from its standard input, as JSON, and writes its
        answer to that path, as JSON: what it prints is not taken for it
    variables : of the environment; data are those of this process
    to : what it is to do, for the message. Raises AlignbookError with its last line where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        own = {"PYTHONPATH": str(sources), "ALIGNBOOK_DATA": str(paths.data())}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | own | {name: str(value) for name, value in variables.items()},
            input=json.dumps([str(answer), asked]),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            reason = on_one_line((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
            raise AlignbookError(f"the base cannot {to}: {reason}")
        return json.loads(answer.read_text(encoding="utf-8"))

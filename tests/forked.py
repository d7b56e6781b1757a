"""Commands in processes that start with their imports done: the many commands that tests call.

One process imports what a command needs; each command runs in a fork of it, with the arguments, the folder
and the environment that it is given, and leads a process group of its own, as in a terminal. Workers that it
starts are forks of it; where the book itself is built, they are spawned, as elsewhere. What is decided when
an interpreter starts (``PYTHON*`` variables, the locale, the seed of hashes) is not for tests of these.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from multiprocessing import popen_fork
from pathlib import Path

IMPORTS = ("scipy.stats", "torch", "companion.cli", "companion.runs.run", "companion.judging", "distributed")


class Forks:
    """Runs commands in forks of one process, until ``close``."""

    def __init__(self):
        self.count = 0
        self.folder = tempfile.TemporaryDirectory(prefix="alignbook-tests-")
        self.address = os.path.join(self.folder.name, "forks")
        door = socket.socket(socket.AF_UNIX)
        door.bind(self.address)
        door.listen()
        self.server = subprocess.Popen(
            [sys.executable, __file__, str(door.fileno())],
            stdin=subprocess.PIPE, pass_fds=[door.fileno()], start_new_session=True,
        )  # fmt: skip
        door.close()

    def start(self, code, arguments, folder, environment):
        """The :class:`Fork` of ``python -c code *arguments``."""
        self.count += 1
        files = [os.path.join(self.folder.name, f"{self.count}.{name}") for name in ("out", "err")]
        line = socket.socket(socket.AF_UNIX)
        line.connect(self.address)
        with open(os.devnull) as empty, open(files[0], "wb") as out, open(files[1], "wb") as err:
            socket.send_fds(line, [b"!"], [empty.fileno(), out.fileno(), err.fileno()])
        command = {"code": code, "arguments": arguments, "folder": str(folder), "environment": environment}
        line.sendall(json.dumps(command).encode() + b"\0")
        return Fork(line, *map(Path, files))

    def close(self):
        self.server.stdin.close()
        self.server.wait()
        self.folder.cleanup()


class Fork:
    """A process that was forked, ``line`` says its number and how it ended; it prints into two files."""

    def __init__(self, line, out, err):
        self.line, self.out, self.err, self.returncode = line, out, err, None
        self.pid = self._number()

    def wait(self, timeout=None):
        """Its exit status, as of subprocess; None where it still runs after ``timeout`` seconds."""
        if self.returncode is None and select.select([self.line], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(self._number())
            self.line.close()
        return self.returncode

    def ended(self, timeout=600):
        """(exit status, standard output, standard error); it is killed after ``timeout`` seconds."""
        if self.wait(timeout) is None:
            self.kill()
        return self.returncode, self.out.read_text(), self.err.read_text()

    def kill(self, number=signal.SIGKILL):
        """Send a signal to it and what it has started, and wait for its end."""
        if self.wait(0) is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
        return self.wait()

    def _number(self):
        text = b""
        while not text.endswith(b"\n"):
            part = self.line.recv(1)
            if not part:
                raise ConnectionError("the process that forks has ended")
            text += part
        return int(text)


def serve(door):
    """Fork for whoever asks at ``door`` (a listening socket), until standard input is closed.

    Returns in each fork the command that it shall run; between it and the server a process waits for its end.
    """
    for module in IMPORTS:
        with contextlib.suppress(ModuleNotFoundError):  # Dask is optional
            importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        if sys.stdin in select.select([door, sys.stdin], [], [])[0]:
            return None
        line, _ = door.accept()
        if os.fork():
            line.close()
            continue
        door.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _, streams, _, _ = socket.recv_fds(line, 1, 3)
        command = b""
        while not command.endswith(b"\0"):
            command += line.recv(65536) or os._exit(1)  # whoever asked is gone
        ready, leads = os.pipe()
        process = os.fork()
        if process:
            os.close(leads)
            os.read(ready, 1)  # it leads a group of its own
            try:
                line.sendall(b"%d\n" % process)
                line.sendall(b"%d\n" % os.waitpid(process, 0)[1])
            finally:
                os._exit(0)
        os.setsid()
        os.close(ready)
        os.close(leads)
        line.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return json.loads(command[:-1])


def become(code, arguments, folder, environment):
    """Run ``python -c code *arguments`` in this process."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    warnings.simplefilter(environment["PYTHONWARNINGS"])
    sys.dont_write_bytecode = True
    # Its own workers are forked, too, where the book spawns them: they start with what it has imported.
    spawned, forked = multiprocessing.get_context, multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: forked if method == "spawn" else spawned(method)
    fork_workers()
    sys.path[:] = [folder, *environment["PYTHONPATH"].split(os.pathsep), *sys.path[1:]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<string>", "exec"), main.__dict__)


def fork_workers():
    """Have joblib's workers be forks, too."""
    from joblib.externals.loky.backend.process import LokyProcess

    class Forked(popen_fork.Popen):
        def _launch(self, process):
            run = process.run

            def in_environment():
                os.environ.update(process.env)
                run()

            process.run = in_environment
            super()._launch(process)

    LokyProcess._Popen = staticmethod(Forked)


if __name__ == "__main__":
    command = serve(socket.socket(fileno=int(sys.argv[1])))
    if command:
        become(**command)

"""Processes that start with the slow imports done, for the many commands that tests call.

One process imports torch, pandas and scipy and nothing of alignbook; each command runs in a fork of it, with
the arguments, folder and environment that it is given, and imports alignbook as a process of its own would.
Workers that a command starts are forks of it; they are spawned where the book itself is built, as elsewhere.
What PYTHON* variables, the locale and the seed of hashes decide is decided when an interpreter starts: not
for tests of these.
"""

import contextlib
import importlib
import json
import multiprocessing.process
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings

IMPORTS = ("numpy", "pandas", "scipy.stats", "torch", "yaml", "joblib", "distributed")


class Forks:
    """Runs commands in forks of one process, until ``close``."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="alignbook-tests-")
        self.address = os.path.join(self.folder.name, "forks")
        door = socket.socket(socket.AF_UNIX)
        door.bind(self.address)
        door.listen()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self.server = subprocess.Popen(
            [sys.executable, __file__, str(door.fileno())],
            stdin=subprocess.PIPE, pass_fds=[door.fileno()], env=environment, start_new_session=True,
        )  # fmt: skip
        door.close()

    def start(self, arguments, folder, environment, streams):
        """:class:`Fork` of ``python *arguments``: -m module … or -c code; streams: three open files."""
        line = socket.socket(socket.AF_UNIX)
        line.connect(self.address)
        socket.send_fds(line, [b"!"], [stream.fileno() for stream in streams])
        asked = {"arguments": arguments, "folder": str(folder), "environment": environment}
        line.sendall(json.dumps(asked).encode() + b"\0")
        return Fork(line)

    def run(self, arguments, folder, environment, timeout):
        """(exit status, standard output, standard error) of ``python *arguments``.

        Raises subprocess.TimeoutExpired, with what it has printed, after ``timeout`` seconds.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull) as empty:
            fork = self.start(arguments, folder, environment, (empty, out, err))
            status = fork.wait(timeout)
            if status is None:
                fork.kill()
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode())
        if status is None:
            raise subprocess.TimeoutExpired(arguments, timeout, *texts)
        return status, *texts

    def close(self):
        self.server.stdin.close()
        self.server.wait()
        self.folder.cleanup()


class Fork:
    """A process that was forked, the leader of a group; ``line`` says its number and how it ended."""

    def __init__(self, line):
        self.line, self.returncode = line, None
        self.pid = _number(line)

    def wait(self, timeout=None):
        """Its exit status, as of subprocess; None where it still runs after ``timeout`` seconds."""
        if self.returncode is None and select.select([self.line], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(_number(self.line))
            self.line.close()
        return self.returncode

    def poll(self):
        return self.wait(0)

    def kill(self):
        """End it and what it has started."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait()


def _number(line):
    text = b""
    while not text.endswith(b"\n"):
        part = line.recv(1)
        if not part:
            raise ConnectionError("the process that forks has ended")
        text += part
    return int(text)


def serve(door):
    """Fork for whoever asks at ``door`` (a listening socket), until standard input is closed.

    Returns in each fork what it was asked to run; between it and the server a process waits for its end.
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
        asked = b""
        while not asked.endswith(b"\0"):
            asked += line.recv(65536) or os._exit(1)  # whoever asked is gone
        ready, told = os.pipe()
        process = os.fork()
        if process:
            os.close(told)
            os.read(ready, 1)  # it leads a group of its own
            try:
                line.sendall(b"%d\n" % process)
                line.sendall(b"%d\n" % os.waitpid(process, 0)[1])
            finally:
                os._exit(0)
        os.setsid()
        os.close(ready)
        os.close(told)
        line.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return json.loads(asked[:-1])


def become(arguments, folder, environment):
    """Run ``python *arguments`` in this process."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter(environment["PYTHONWARNINGS"])
    # Its own workers are forked, too, where the book spawns them: they start with what it has imported.
    spawned, forked = multiprocessing.get_context, multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: forked if method == "spawn" else spawned(method)
    _fork_workers()
    found = environment["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [folder, *found, *sys.path[1:]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    kind, what, *rest = arguments
    if kind == "-m":
        sys.argv = [what, *rest]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *rest]
        exec(compile(what, "<string>", "exec"), main.__dict__)


def _fork_workers():
    """Have joblib's workers be forks, too."""
    from multiprocessing import popen_fork

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
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked:
        become(**asked)

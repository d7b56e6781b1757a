"""Kernels that start with their imports done, forked from one process that has imported what pages need.

Importing torch, scipy, pandas and matplotlib takes more time than most pages. Jupyter starts a kernel by a
command; here that command only asks the process with the imports for a fork, and ends when the fork does.
"""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager

# Not matplotlib_inline's backend, which looks for IPython when it is imported.
IMPORTS = (
    "ipykernel.kernelapp", "matplotlib.pyplot", "matplotlib.backends.backend_svg", "pandas", "scipy.stats",
    "torch", "companion.pages.page",
)  # fmt: skip
# What Jupyter starts: it hands its streams, working folder and environment over, and waits.
_ASK = """\
import json, os, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Jupyter interrupts a kernel before it ends it
address, *arguments = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as line:
    line.connect(address)
    socket.send_fds(line, [b"!"], [0, 1, 2])
    asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    line.sendall(json.dumps(asked).encode() + b"\\0")
    line.recv(1)
"""


def speaking_to(stream, manager=None):
    """``manager`` (None: Jupyter's own), whose kernels write their own messages to the file ``stream``.

    What a cell writes is in the notebook. What is left is, at most, a kernel's surprise about sockets that
    Jupyter has closed before the kernel ended: a traceback that tells the reader of a command nothing.
    """
    from jupyter_client import AsyncKernelManager

    class Manager(manager or AsyncKernelManager):
        def start_kernel(self, **options):
            return super().start_kernel(stderr=stream, **options)

    return Manager


@contextmanager
def forked(environment):
    """A kernel manager class, whose kernels start inside; None where processes are not safely forked.

    environment : dict, what the kernels' imports find in the environment besides what this process has
    """
    if sys.platform != "linux":
        yield None
        return
    from jupyter_client import AsyncKernelManager

    with tempfile.TemporaryDirectory(prefix="alignbook-") as folder, socket.socket(socket.AF_UNIX) as door:
        address = os.path.join(folder, "kernels")
        try:
            door.bind(address)
        except OSError:  # TMPDIR is too long for a socket, or is on a file system without them
            yield None
            return
        door.listen()
        command = [sys.executable, "-c", f"from {__name__} import serve; serve({door.fileno()}, {IMPORTS})"]
        environment = os.environ | environment | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[door.fileno()], env=environment, start_new_session=True
        )

        class Manager(AsyncKernelManager):
            def format_kernel_cmd(self, extra_arguments=None):
                usual = super().format_kernel_cmd(extra_arguments)
                if server.poll() is not None:  # it has ended, and would not answer
                    return usual
                arguments = usual[usual.index("ipykernel_launcher") + 1 :]
                return [sys.executable, "-S", "-c", _ASK, address, *arguments]

        try:
            yield Manager
        finally:
            server.stdin.close()
            server.kill()  # it may still be importing
            server.wait()


def serve(door, imports):
    """Fork a kernel for whoever asks at the socket ``door`` (a file descriptor), until stdin is closed.

    imports : names of the modules to import first
    """
    for module in imports:
        importlib.import_module(module)
    door = socket.socket(fileno=door)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the kernels
    main = os.getpid()
    threading.Thread(target=_end_with, args=(0, main), daemon=True).start()
    while True:
        line, _ = door.accept()
        if os.fork() == 0:
            door.close()
            return _become_kernel(line, main)
        line.close()


def _end_with(descriptor, process):
    """End ``process`` when whoever holds the other end of ``descriptor`` is gone."""
    os.read(descriptor, 1)
    os.kill(process, signal.SIGKILL)


def _become_kernel(line, server):
    from ipykernel.kernelapp import IPKernelApp

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    _, streams, _, _ = socket.recv_fds(line, 1, 3)
    asked = b""
    while not asked.endswith(b"\0"):
        asked += line.recv(65536)
    asked = json.loads(asked[:-1])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.update(asked["environment"] | {"JPY_PARENT_PID": str(server)})
    os.chdir(asked["folder"])
    sys.path[:] = [path for path in sys.path if path]
    threading.Thread(target=_end_with, args=(line.fileno(), os.getpid()), daemon=True).start()
    try:
        # Read when the module was imported, and too early to be known; without it the kernel prints advice.
        IPKernelApp.launch_instance(asked["arguments"], parent_handle=server)
    finally:
        line.shutdown(socket.SHUT_RDWR)

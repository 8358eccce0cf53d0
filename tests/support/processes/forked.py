# SPDX-License-Identifier: Apache-2.0
"""Start soscope's reading verbs with an interpreter that has imported what they import.

An interpreter and its imports take 40 to 120 ms of processor time, more than most reports take. A
server of each worker forks for each run of a verb that reads files or processes and prints. What
it has forked is `python -m soscope` from there on, in a session, with descriptors, an environment
and a folder of its own, and ends with its own status. What a run had to import is told to the
server, which imports it, too: the first run of each kind imports all of soscope by itself.

Verbs that run programs or stay in processes have interpreters of their own, and so has each run
whose environment has other words for interpreters than the server's, or that would inherit other
signals or limits: `read` returns None, and `run.run` starts one.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

# signal.getsignal makes an enumeration's member of each answer, which takes long.
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Mapping, Sequence
from typing import NoReturn

REPOSITORY = os.path.abspath(f"{__file__}/../../../..")
_READ = {
    *("audit-resolver", "check", "explain", "export", "map", "report", "resolve"),
    *("mem diff", "mem flame", "mem leaks", "mem report"),
    *("prof check", "prof diff", "prof flame", "prof report"),
}
_FAMILIES = {"mem", "prof"}
# Names of the environment that an interpreter or the C library read when they start.
_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "GLIBC_", "OPENBLAS_", "OMP_")
_MOST = 1 << 20  # bytes of a request
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


class Server:
    """The process that forks; `close` ends it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        words = [sys.executable, "-m", "tests.support.processes.forked", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                words,
                cwd=REPOSITORY,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._owner = os.getpid()
        self._begun = _inherited()
        self._words = _at_start(os.environ)
        self._lock = threading.Lock()

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], folder: str, seconds: float
    ) -> subprocess.CompletedProcess[str] | None:
        """Run `argv` as `run.run` does; None where the server cannot."""
        if self._owner != os.getpid() or _at_start(env) != self._words:
            return None
        if _inherited() != self._begun or not self._lock.acquire(blocking=False):
            return None
        try:
            return self._run(argv, env, folder, seconds)
        finally:
            self._lock.release()

    def _run(
        self, argv: Sequence[str], env: Mapping[str, str], folder: str, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        with open(out, "rb") as out_file, open(err, "rb") as err_file:
            try:
                request = json.dumps([list(argv[3:]), dict(env), folder]).encode()
                socket.send_fds(self._socket, [request], [their_out, their_err])
            finally:
                os.close(their_out)
                os.close(their_err)
            pid = int(self._socket.recv(32))
            texts = {out_file.fileno(): bytearray(), err_file.fileno(): bytearray()}
            if not _gathered(texts, self._socket, seconds):
                with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                    os.killpg(pid, signal.SIGKILL)
                self._socket.recv(32)
                said = [_text(data) for data in texts.values()]
                raise subprocess.TimeoutExpired(list(argv), seconds, *said)
            status = os.waitstatus_to_exitcode(int(self._socket.recv(32)))
        return subprocess.CompletedProcess(list(argv), status, *map(_text, texts.values()))

    def close(self) -> None:
        """End the server, which forks no more."""
        self._socket.close()
        self._process.wait()


def read(
    argv: Sequence[str | os.PathLike[str]],
    env: Mapping[str, str],
    folder: str | os.PathLike[str] | None,
    seconds: float,
) -> subprocess.CompletedProcess[str] | None:
    """Run a reading verb to its end; None where `argv` is none, or nobody has begun a server."""
    words = [os.fspath(word) for word in argv]
    if server is None or words[:3] != [sys.executable, "-m", "soscope"] or not _is_read(words[3:]):
        return None
    here = os.path.abspath(folder or os.getcwd())
    if any(name == "soscope" or name.endswith(".py") for name in os.listdir(here)):
        return None  # -m looks there first
    return server.run(words, env, here, seconds)


def begin() -> None:
    """Begin the server of this process, which takes no more than an interpreter's start."""
    global server  # noqa: PLW0603  a process has one
    server = Server()


def end() -> None:
    """End the server of this process."""
    global server  # noqa: PLW0603  as above
    if server is not None:
        server.close()
        server = None


server: Server | None = None


def _is_read(words: list[str]) -> bool:
    while words[:1] == ["--debug"]:
        words = words[1:]
    verb = " ".join(words[:2]) if words[:1] and words[0] in _FAMILIES else "".join(words[:1])
    return verb in _READ


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in env.items() if name.startswith(_AT_START)}


def _inherited() -> tuple[object, ...]:
    """Return what a program that this process starts would inherit, and one of the server's not."""
    ignored = [each for each in range(1, signal.NSIG) if getsignal(each) == signal.SIG_IGN]
    mask = os.umask(0o022)
    os.umask(mask)
    limits = [resource.getrlimit(each) for each in _LIMITS]
    return ignored, signal.pthread_sigmask(signal.SIG_BLOCK, ()), mask, limits, os.getresuid()


def _gathered(texts: dict[int, bytearray], end: socket.socket, seconds: float) -> bool:
    """Read pipes until nobody can write any more and `end` says that the process has ended.

    False is returned if `seconds` run out before.
    """
    end_at = time.monotonic() + seconds
    poll = select.poll()
    left = {*texts, end.fileno()}
    for each in left:
        poll.register(each, select.POLLIN)
    while left:
        ready = poll.poll(max(0.0, end_at - time.monotonic()) * 1000)
        if not ready:
            return False
        for each, _ in ready:
            data = os.read(each, 1 << 16) if each in texts else b""
            if data:
                texts[each] += data
            else:
                poll.unregister(each)
                left.remove(each)
    return True


def _text(data: bytearray) -> str:
    text = data.decode(errors="surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as text=True does


# ---- the server's own process ------------------------------------------------


def _serve(requests: socket.socket) -> None:
    while True:
        data, pipes, _, _ = socket.recv_fds(requests, _MOST, 2)
        if not data:
            return  # whoever asks has ended
        (words, env, folder), (out, err) = json.loads(data), pipes
        told, tell = os.pipe()
        pid = os.fork()
        if not pid:
            _become(words, env, folder, out, err, tell)
        for pipe in (out, err, tell):
            os.close(pipe)
        requests.send(str(pid).encode())
        with open(told, encoding="utf-8") as file:
            names = file.read().split()
        requests.send(str(os.waitpid(pid, 0)[1]).encode())
        if missing := [name for name in names if name not in sys.modules]:
            for name in missing:
                with contextlib.suppress(ImportError):  # each run then imports it by itself
                    importlib.import_module(name)
            sys.stdout.flush()  # nothing that waits there is a later run's
            gc.collect()
            gc.freeze()


def _become(
    words: list[str], env: dict[str, str], folder: str, out: int, err: int, tell: int
) -> NoReturn:
    """Be `python -m soscope` with these words to the end."""
    os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    tell = fcntl.fcntl(tell, fcntl.F_DUPFD_CLOEXEC, most - 1)  # the others are as ever
    os.closerange(3, most - 1)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv[1:] = words
    leave, own = os._exit, os.getpid()

    def end(status: int) -> NoReturn:
        if os.getpid() == own:  # what it forks ends so, too
            os.write(tell, "\n".join(sys.modules).encode())
        leave(status)

    os._exit = end
    try:
        runpy.run_module("soscope", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  as an interpreter does
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    end(status)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        _serve(asked)

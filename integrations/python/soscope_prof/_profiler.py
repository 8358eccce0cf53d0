# SPDX-License-Identifier: Apache-2.0
"""Profile this process: the command `soscope` attaches to it, and lets go of it again."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from soscope_prof._result import ProfilingError, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OLDEST = (3, 11)  # Python that soscope itself runs in
_BEGUN = b"soscope: profiling process "
_SET_PTRACER = 0x59616D61  # PR_SET_PTRACER, prctl(2)


class _Running:
    """A soscope that profiles this process."""

    __slots__ = ("pid", "process", "record")

    def __init__(self, process: subprocess.Popen[bytes], record: str) -> None:
        self.process = process
        self.record = record
        self.pid = os.getpid()


_running: list[_Running] = []


def start(images: Sequence[str] = (), mode: str | None = None, boundary: str | None = None) -> None:
    """Profile this process from now on, with all its threads, until `stop`.

    `images` are patterns of images, or one, as of `soscope prof attach -l`; `mode` and `boundary`
    are as there; with "log" the result has the sums. Returns when every call is seen. Raises
    ProfilingError.
    """
    if _running and _running[0].pid == os.getpid():
        raise ProfilingError("this process is profiled already")
    command = _command()
    folder = tempfile.mkdtemp(prefix="soscope-")
    record = os.path.join(folder, "run.sosr")
    words = [*command, "prof", "attach", "-p", str(os.getpid()), "-o", record]
    # a string is a sequence of patterns, too, which nobody means
    for image in [images] if isinstance(images, str) else images:
        words += ["-l", image]
    if mode is not None:
        words += ["--mode", mode]
    if boundary is not None:
        words += ["--boundary", boundary]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this program
        )
        _allow(process.pid)
        said = _until_begun(process)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if said:
        shutil.rmtree(folder, ignore_errors=True)
        raise ProfilingError(said)
    _running[:] = [_Running(process, record)]
    atexit.register(_forget)


def _forget() -> None:
    """Leave nothing behind where the program ends first; soscope ends with it."""
    for running in _running:
        if running.pid == os.getpid():
            shutil.rmtree(os.path.dirname(running.record), ignore_errors=True)


def stop() -> Result:
    """Profile no more; return what was seen. Raises ProfilingError where nothing was started."""
    result = Result(_command())
    _stop(result)
    return result


@contextlib.contextmanager
def profile(
    images: Sequence[str] = (), mode: str | None = None, boundary: str | None = None
) -> Iterator[Result]:
    """Profile a block of code; the result has something to say when the block has ended.

    The arguments are those of `start`. Raises ProfilingError.
    """
    start(images, mode, boundary)
    result = Result(_command())
    try:
        yield result
    finally:
        _stop(result)


def _stop(result: Result) -> None:
    """End the profile; `result` takes what was seen."""
    if not _running or _running[0].pid != os.getpid():
        raise ProfilingError("this process is not profiled")
    running = _running.pop()
    # a program that was started in the background ignores SIGINT, and so do its children
    running.process.send_signal(signal.SIGTERM)
    assert running.process.stderr is not None
    with running.process.stderr as stderr:
        said = stderr.read()
    status = running.process.wait()
    if status:
        shutil.rmtree(os.path.dirname(running.record), ignore_errors=True)
        raise ProfilingError(_message(said) or f"soscope has ended with status {status}")
    result.read(running.record)


def _command() -> list[str]:
    """Return the words that soscope is called by: this Python's own, or the one on PATH."""
    if sys.version_info >= _OLDEST and importlib.util.find_spec("soscope") is not None:
        return [sys.executable, *_isolation(), "-m", "soscope"]
    found = shutil.which("soscope")
    if found is None:
        raise ProfilingError("there is no command 'soscope' on PATH")
    return [found]


def _isolation() -> list[str]:
    """Return the options that keep soscope from importing what lies in the current folder.

    If this Python was told to look at less (-I, -E, -s), soscope looks at less, too.
    """
    flags = sys.flags
    told = ("-I", flags.isolated), ("-E", flags.ignore_environment), ("-s", flags.no_user_site)
    return ["-P", *(option for option, is_set in told if is_set)]


def _allow(pid: int) -> None:
    """Let a child trace this process where only parents may (Yama, ptrace_scope 1)."""
    # a system without it has no such rule; where it fails, attaching says what is forbidden
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def _until_begun(process: subprocess.Popen[bytes]) -> str:
    """Wait until soscope sees every call; return "", or why it does not."""
    assert process.stderr is not None
    said = b""
    for line in process.stderr:
        if line.startswith(_BEGUN):
            return ""
        said += line
    process.stderr.close()
    process.wait()
    return _message(said) or f"soscope has ended with status {process.returncode}"


def _message(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").splitlines()
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return errors[0] if errors else "\n".join(lines)

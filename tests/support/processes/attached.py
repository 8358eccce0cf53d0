# SPDX-License-Identifier: Apache-2.0
"""Programs that run already: start them, trace them, compare what they were with what they are.

What must be the same afterwards is read from outside, by the section headers that readelf
prints: everything in an image that names a function, or is code.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.processes.launching import environment
from tests.support.time import patience
from tests.support.time.patience import limit
from tests.support.time.progress import Condition, has_grown, state

SECTIONS = {
    *(".got", ".got.plt", ".plt", ".plt.got", ".plt.sec", ".rela.plt", ".rela.dyn"),
    *(".text", ".rodata", ".dynamic", ".init_array", ".fini_array", ".data.rel.ro"),
}
LIMIT = 60.0

Words = dict[tuple[str, str, int], bytes]


@functools.cache
def _sections(path: str) -> tuple[bool, list[tuple[str, int, int]]]:
    """Return whether an image has fixed addresses, and its (section, vaddr, size)."""
    if not os.path.isfile(path):  # a device, or deleted
        return False, []
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return False, []
    words = [need("readelf"), "-hSW", path]
    text = subprocess.run(words, capture_output=True, text=True, timeout=limit(), check=True).stdout
    found = re.findall(r"\] (\S+)\s+\S+\s+([0-9a-f]{16}) [0-9a-f]+ ([0-9a-f]+)", text)
    rows = [(name, int(at, 16), int(size, 16)) for name, at, size in found if name in SECTIONS]
    return bool(re.search(r"Type:\s+EXEC", text)), rows


def snapshot(pid: int, *, without: str = "") -> Words:
    """Read what soscope may change and must put back, by (path, section, addr).

    `without` is in the names of images that come and go.
    """
    found: Words = {}
    seen = ("", "")  # path and end of the mapping in front
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, _, offset, _, _, *path = line.split(None, 5)
            begin, _, end = span.partition("-")
            is_first = seen != ("".join(path), begin)  # lld maps an image's first page twice
            seen = ("".join(path), end)
            if (
                not is_first
                or int(offset, 16)
                or not path
                or not path[0].startswith("/")
                or "memfd" in path[0]
            ):
                continue
            if without and without in path[0]:
                continue
            is_fixed, rows = _sections(path[0])
            start = 0 if is_fixed else int(span.partition("-")[0], 16)
            for name, vaddr, size in rows:
                memory.seek(start + vaddr)
                found[path[0], name, start + vaddr] = memory.read(size)
    return found


def _image_at(pid: int, addr: int) -> str:
    """Return the path of the code at an address, "" where there is none of a file."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, flags, _, _, _, *path = line.split(None, 5)
        start, end = (int(word, 16) for word in span.split("-"))
        if start <= addr < end and "x" in flags and path and path[0].startswith("/"):
            return "" if "memfd" in path[0] else path[0]
    return ""


def _is_stub(found: Words, path: str, word: bytes) -> bool:
    """Return whether a word is the address of a linker's stub of an image."""
    addr = int.from_bytes(word, "little")
    return any(
        at <= addr < at + len(data)
        for (image, section, at), data in found.items()
        if image == path and section.startswith(".plt")
    )


def differences(before: Words, pid: int, *, without: str = "") -> list[str]:
    """Return one line for each word of the process that is another one.

    A slot that was not bound and that the loader has bound meanwhile is none.
    """
    lines = []
    after = snapshot(pid, without=without)
    for key, data in before.items():
        now = after.get(key, b"")
        for at in range(0, len(data) if now != data else 0, 8):
            was, is_ = data[at : at + 8], now[at : at + 8]
            if was == is_:
                continue
            if key[1] == ".got.plt" and _is_stub(before, key[0], was):
                bound_to = _image_at(pid, int.from_bytes(is_, "little"))
                if bound_to and not _is_stub(before, key[0], is_):
                    continue
            lines.append(f"{key[0]} {key[1]} {key[2] + at:#x}: {was.hex()} is {is_.hex()}")
    return lines


@contextmanager
def running(
    command: Sequence[str | os.PathLike[str]], *, ready: str = "ready\n"
) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the end of the block; it has printed `ready` when that begins."""
    process = subprocess.Popen(
        [os.fspath(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if ready:
            assert process.stdout is not None
            assert process.stdout.readline() == ready
        yield process
    finally:
        process.kill()
        process.communicate(timeout=limit())


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Let a program end that waits for a line; return its status and what it printed."""
    out, err = process.communicate("end\n", timeout=limit())
    return process.returncode, out, err


def words(pid: int, *options: str) -> list[str]:
    """Return the command that traces a process."""
    return [sys.executable, "-m", "soscope", "--debug", "trace", *options, "-p", str(pid)]


def trace(pid: int, *options: str, limit: float | None = None) -> subprocess.CompletedProcess[str]:
    """Trace a process to the end of the trace."""
    return subprocess.run(
        words(pid, *options),
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience.limit() if limit is None else limit,
        check=False,
    )


def start(pid: int, *options: str) -> subprocess.Popen[str]:
    """Begin to trace a process; whether the agent lies in it is not waited for."""
    return subprocess.Popen(
        words(pid, *options),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def begin(pid: int, *options: str) -> subprocess.Popen[str]:
    """Begin to trace a process, and return when it is hooked."""
    tracer = subprocess.Popen(
        words(pid, *options),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until("memfd:soscope", pid, running=tracer)
    wait_for_hooks(tracer, *options)
    return tracer


def assert_it_profiles(soscope: subprocess.Popen[str], pid: int) -> None:
    """Wait until a soscope says that it profiles; it may say before that it takes a while."""
    assert soscope.stderr is not None
    begun = f"soscope: profiling process {pid}; Ctrl-C ends it\n"
    assert any(line == begun for line in soscope.stderr), "it has ended"


def wait_for_hooks(soscope: subprocess.Popen[str] | subprocess.Popen[bytes], *options: str) -> None:
    """Wait until soscope has gone into its process and out again: it waits for signals then.

    With much to record it hardly ever waits, but it writes, which it does outside as well:
    `options` may name the file.
    """
    files = [Path(file) for word, file in pairwise(options) if word in ("--record", "-o")]
    have_grown = [has_grown(file, _MUCH) for file in files]
    patience.until(
        lambda: _waits_for_signals(soscope.pid) or any(has() for has in have_grown),
        "soscope comes out of the process",
        running=soscope,
    )


_MUCH = 100_000  # bytes: more than stands at the beginning of a recording


def _waits_for_signals(soscope: int) -> bool:
    return Path(f"/proc/{soscope}/syscall").read_text().split()[0] == _RT_SIGTIMEDWAIT


def observe(
    pid: int, *options: str, until: Condition, what: str = "the program goes on"
) -> subprocess.CompletedProcess[str]:
    """Trace a process from its hooks until a condition is true; return what soscope printed.

    soscope is told to end by SIGINT, as by who has seen enough.
    """
    command = words(pid, *options)
    # what it prints may be more than a pipe holds, and is read at the end alone
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        tracer = subprocess.Popen(
            command, env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        try:
            wait_until("memfd:soscope", pid, running=tracer)
            wait_for_hooks(tracer, *options)
            patience.until(until, what, running=tracer)
            tracer.send_signal(signal.SIGINT)
            tracer.wait(limit())
        finally:
            tracer.kill()
            tracer.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, tracer.returncode, out.read(), err.read())


def detach(pid: int, *options: str, limit: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run `soscope detach`."""
    return subprocess.run(
        [sys.executable, "-m", "soscope", "--debug", "detach", *options, "-p", str(pid)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience.limit() if limit is None else limit,
        check=False,
    )


def wait_until(
    what: str, pid: int, *, running: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None
) -> None:
    """Wait until the process has a mapping with this text in its line; `running` makes it."""
    maps = Path(f"/proc/{pid}/maps")
    patience.until(lambda: what in maps.read_text(), f"a mapping of {what}", running=running)


_RT_SIGTIMEDWAIT = "128"  # on x86-64


def tracer_of(pid: int) -> int:
    """Return who traces a process, 0 for nobody."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("TracerPid:")[2].split()[0])


def wait_for_helper(soscope: int, pid: int) -> int:
    """Wait until the child of soscope that stays traces the process; return its pid.

    Another one does so before, for a moment or, where others work, too, for long; when that has
    ended and the helper has begun, soscope itself waits for signals.
    """
    seen = [0]

    def helper() -> int:
        tracer, before = tracer_of(pid), seen[-1]
        seen.append(tracer)
        if not tracer or tracer != before:
            return 0
        parent = Path(f"/proc/{tracer}/stat").read_text().rpartition(")")[2].split()[1]
        stays = state(pid) != "t" and _waits_for_signals(soscope)
        return tracer if int(parent) == soscope and stays else 0

    return patience.until(helper, "soscope's child traces the process")

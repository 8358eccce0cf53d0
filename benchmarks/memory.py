# SPDX-License-Identifier: Apache-2.0
"""What a traced program has more in memory, its ring left out."""

from __future__ import annotations

import os
import struct
import subprocess
from collections import Counter
from collections.abc import Callable

from benchmarks.measure import Failed, Figure
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools
from soscope.wire import layout

_RING = 1 << 20  # --buffer: small enough to be there as a whole
_FEW, _MANY = 16, 16 + 4 * 4096


class _Memory:
    """Resident bytes of a process: its own, those of files by path, and of what it shares.

    `shared` are those of the ring, and of the table of functions: soscope has written that, the
    process reads some words of it, and the kernel maps 64 KiB around each.

    `files` are pages of files that the process has not written: how many of them are mapped is
    chance, 150 KiB more or less of the C library in two runs of one program.
    """

    def __init__(self, pid: int) -> None:
        self.own = self.shared = 0
        self.files: Counter[str] = Counter()
        path, block = "", 0
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
            for line in file:
                word, _, rest = line.partition(" ")
                if "-" in word and ":" not in word:
                    start, end = (int(part, 16) for part in word.split("-"))
                    offset = int(rest.split()[1], 16)
                    path = rest.split(maxsplit=4)[4].strip() if " /" in rest else ""
                    if "memfd:soscope" in rest and offset == 0:
                        if end - start > _RING and not block:
                            block = start
                        elif rest.startswith("r--s") and block:  # the block's plan
                            self.shared += _present(
                                pid, *_section(pid, start, layout.SEC_RING, block)
                            )
                            self.shared += _present(
                                pid, *_section(pid, start, layout.SEC_FUNCTIONS, start)
                            )
                elif word == "Rss:":
                    self.files[path] += int(rest.split()[0]) * 1024
                elif word == "Anonymous:":
                    self.files[path] -= int(rest.split()[0]) * 1024
                    self.own += int(rest.split()[0]) * 1024

    def more_than(self, plain: _Memory) -> int:
        """Return what is resident beside what `plain` has, without shared memory and its files."""
        files = sum(size for path, size in self.files.items() if path not in plain.files)
        return self.own + files - self.shared - plain.own


def _section(pid: int, plan: int, section: int, at: int) -> tuple[int, int]:
    """Return [start, end) of a section of the file that is mapped at `at`, as the plan says."""
    where = layout.PLAN_HEAD.offset("section") + section * layout.RANGE.size
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(plan + where)
        offset, size = struct.unpack("<QQ", memory.read(layout.RANGE.size))
    return at + offset, at + offset + size


def _present(pid: int, start: int, end: int) -> int:
    """Return the bytes of [start, end) that the process has mapped pages for."""
    page = os.sysconf("SC_PAGE_SIZE")
    with open(f"/proc/{pid}/pagemap", "rb") as file:
        file.seek(start // page * 8)
        words = file.read((end - start) // page * 8)
    return sum(page for (word,) in struct.iter_unpack("<Q", words) if word >> 63)


def _look(command: list[str], name: str) -> _Memory:
    """Run a `sites` program to where it waits, and look."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if not process.stdout.readline().startswith(b"ready"):
            raise Failed("the target did not get ready")
        return _Memory(_find(process.pid, name))
    finally:
        process.stdin.write(b"\n")
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()


def _find(pid: int, name: str) -> int:
    """Return the process itself or its child that runs `name`."""
    for one in [pid, *_children(pid)]:
        if os.path.basename(os.readlink(f"/proc/{one}/exe")) == name:
            return one
    raise Failed("the target was not found")


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure resident memory in each mode, with few call sites and with many."""
    table = Table()
    say("memory of the target")
    program = tools.path("sites")
    buffer = ["--buffer", str(_RING), "-e", "labs"]
    modes = {
        "`--count-only`": tools.summary("--count-only", *buffer),
        "`-c`": tools.summary("-c", *buffer),
        "recorded in full": tools.record(*buffer),
    }
    if "uftrace" in tools.peers:
        modes["uftrace"] = tools.uftrace()
    more: dict[tuple[str, int], list[float]] = {}
    for _ in range(min(count, 3)):
        try:
            for words, sites in (([], _FEW), (["many"], _MANY)):
                plain = _look([program, *words], "sites")
                for mode, tracer in modes.items():
                    seen = _look([*tracer, program, *words], "sites")
                    extra = seen.more_than(plain) / 1024
                    more.setdefault((mode, sites), []).append(extra)
        except (Failed, OSError) as error:
            table.remarks.append(f"memory: {error}")
            break
    for (mode, sites), values in more.items():
        if mode == "uftrace":
            continue
        known = 0 if mode == "`--count-only`" else 64 * sites  # counting needs no return
        title = f"target's extra RSS, {sites:,} call sites, {mode}"
        row = Row(title, 1024 + known / 1024, Figure(values), unit="KiB")
        if ("uftrace", sites) in more:
            row.peers = [("uftrace, buffers included", Figure(more["uftrace", sites]))]
        table.rows.append(row)
    table.remarks.append(
        "Neither the ring is in the extra RSS, nor the table of functions that soscope has written "
        "(some 200 KiB of it are mapped, 64 around each word that is read), nor are pages of files "
        "that the untraced program maps, too; the goal is 1 MiB and 64 bytes a site."
    )
    return table

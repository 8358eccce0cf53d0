# SPDX-License-Identifier: Apache-2.0
"""What a call costs in a program of another architecture, beside gdb-multiarch with a script."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable

from benchmarks.measure import Failed, rounds, run, timed, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_TRIPLET = "powerpc64le-linux-gnu"
_SYSROOT = f"/usr/{_TRIPLET}"
_EMULATOR = "qemu-ppc64le"
_PARTS = ("5", "200")
_WAIT = 0.01  # seconds
_LONGEST = 120  # seconds


def measure(tools: Tools, count: int, say: Callable[[str], None], root: str | None) -> Table:
    """Measure calls under qemu-user; `root` is an unpacked Debian of ppc64el, None without."""
    say("emulated")
    table = Table()
    try:
        few, many = (_program(tools, slots) for slots in (20, 2000))
    except (Failed, OSError) as error:
        table.remarks.append(f"emulated programs: {error}")
        return table

    def traced(program: str, *options: str) -> Callable[[], float]:
        words = [*tools.record(*options, "-e", "f*")[:-1], "--sysroot", _SYSROOT, "--", program]
        return lambda: typical(run([*words, *_PARTS]).output)

    cases = {
        "none": lambda: typical(run([_EMULATOR, "-L", _SYSROOT, few, *_PARTS]).output),
        "both": traced(few),
        "entry": traced(few, "--entry-only"),
        "many": traced(many),
    }
    if shutil.which("gdb-multiarch"):
        stops = ["-ex", "break f0", "-ex", "source " + os.path.join(tools.work, "silent.gdb")]
        script = ["-x", os.path.join(TARGETS, "emulated_gdb.py")]
        cases["gdb commands"] = lambda: _gdb(tools, few, stops)
        cases["gdb Python"] = lambda: _gdb(tools, few, script)
    if root:
        words = ["--sysroot", root, "--", "ls", "-l", os.path.join(root, "usr")]
        whole = [*tools.record("--from", "all")[:-1], *words]
        cases["ls"] = lambda: timed(whole).seconds
    figures, failed = rounds(count, cases)
    table.failed(failed)
    base = figures.get("none")
    for name, goal, case, peer in (
        ("ppc64le under qemu-user: entry and return", 600, "both", "gdb Python"),
        ("ppc64le under qemu-user: entry alone", 300, "entry", "gdb commands"),
        ("the same with 2,000 slots: entry and return", None, "many", ""),
    ):
        row = Row(name, goal, figures.get(case), unit="µs", base=base)
        if peer in figures:
            row.peers.append((f"gdb-multiarch, {peer[4:]}", figures[peer]))
        table.rows.append(row)
    if "many" in figures and "both" in figures:
        beside = figures["many"].over(figures["both"])
        table.rows.append(Row("2,000 slots beside 20: a call", 1.1, beside, unit="x"))
    if "ls" in figures:
        table.rows.append(
            Row("`ls -l` of Debian's ppc64el, all images", 1.5, figures["ls"], unit="s")
        )
    return table


def _program(tools: Tools, slots: int) -> str:
    """Build a program of so many slots and its library; return its path."""
    folder = tools.path(f"emulated{slots}")
    os.mkdir(folder)
    with open(os.path.join(folder, "emulated_names.h"), "w", encoding="ascii") as file:
        file.writelines(f"ONE({number})\n" for number in range(slots))
    library = os.path.join(folder, "f.c")
    with open(library, "w", encoding="ascii") as file:
        file.write("#define ONE(n) long f##n(long x){return x+n;}\n#include <emulated_names.h>\n")
    words = ["clang", f"--target={_TRIPLET}", f"-B{_SYSROOT}/lib", "-O1", "-fuse-ld=bfd"]
    words += [f"-I{folder}", "-fno-builtin"]
    run([*words, "-shared", "-fPIC", "-o", os.path.join(folder, "libf.so"), library])
    program = os.path.join(folder, "emulated")
    link = [f"-L{folder}", "-lf", f"-Wl,-rpath,{folder}"]
    run([*words, "-o", program, os.path.join(TARGETS, "emulated.c"), *link])
    return program


def _gdb(tools: Tools, program: str, stops: list[str]) -> float:
    """Run a program under qemu-user and gdb-multiarch with these words; return µs a call."""
    with open(tools.path("silent.gdb"), "w", encoding="ascii") as file:
        file.write("commands\nsilent\ncontinue\nend\n")
    place = tools.fresh("gdb.socket")
    emulator = subprocess.Popen(
        [_EMULATOR, "-g", place, "-L", _SYSROOT, program, *_PARTS],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + _LONGEST
        while not os.path.exists(place) and time.monotonic() < end:
            time.sleep(_WAIT)
        words = ["gdb-multiarch", "-nx", "-batch", "-ex", f"set sysroot {_SYSROOT}"]
        words += ["-ex", f"set solib-search-path {os.path.dirname(program)}"]
        words += ["-ex", "set breakpoint pending on", "-ex", f"file {program}"]
        run([*words, "-ex", f"target remote {place}", *stops, "-ex", "continue"], timeout=_LONGEST)
        return typical(emulator.communicate(timeout=_LONGEST)[0])
    except subprocess.TimeoutExpired as error:
        raise Failed("the emulator does not end") from error
    finally:
        emulator.kill()
        emulator.wait()

# SPDX-License-Identifier: Apache-2.0
"""What programs for other processors pass and get: their own lines, and soscope's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.crossed import SECURE, TRIPLETS, compiler_of, sysroot
from tests.support.elffiles import run as build
from tests.support.run import soscope
from tests.support.tools import need

pytestmark = pytest.mark.shares

_HERE = Path(__file__).parents[1] / "support"
_LIBC = (
    "snprintf open close setenv nanosleep setitimer gmtime_r sigaction sigprocmask fstat pipe"
    " writev getrlimit fcntl wcslen poll select epoll_ctl connect"
)
_DATA = re.compile(r"\{events=EPOLLIN, data=.*?\}\}")  # of two pointers, which share bytes


def _own_functions() -> list[str]:
    text = (_HERE / "crossed_values.h").read_text()
    return re.findall(r"^[\w ]*?\**(\w+)\(", text, re.MULTILINE)


def _lines(folder: Path, compiler: list[str], words: list[str | Path]) -> tuple[list[str], str]:
    """Return the lines that the program writes down, and the trace's."""
    library, path, log = folder / "libvalues.so", folder / "values", folder / "log"
    build(*compiler, "-w", "-shared", "-fPIC", "-o", library, _HERE / "crossed_values_lib.c")
    search = [f"-L{folder}", "-lvalues", f"-Wl,-rpath,{folder}", "-fno-builtin", "-w"]
    build(*compiler, "-o", path, _HERE / "crossed_values.c", *search)
    names = "+".join([*_own_functions(), *_LIBC.split()])
    header = _HERE / "crossed_values.h"
    own: list[str | Path] = ["-s", "200", "-o", log, "-F", header, "-e", f"{names}@MAIN"]
    done = soscope("trace", *own, *words, "--", path)
    assert done.returncode == 0, done.stderr
    assert "complete" in done.stderr.splitlines()[-1]
    shown = re.sub(r" +=", " =", re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", log.read_text()))
    return done.stdout.splitlines(), shown.replace("values->", "").partition("+++")[0]


@pytest.mark.parametrize("how", ["agent", "sites", "i386"])
def test_its_lines_are_those_of_this_machine(tmp_path: Path, how: str) -> None:
    compiler = [need("clang"), "-O1", *(("-m32",) if how == "i386" else ())]
    told, shown = _lines(tmp_path, compiler, ["--engine", "sites"] if how == "sites" else [])
    assert shown.splitlines() == told


@pytest.mark.parametrize("arch", TRIPLETS)
def test_values_are_what_the_program_says(tmp_path: Path, arch: str) -> None:
    secure = SECURE if arch == "ppc" else ()
    told, shown = _lines(tmp_path, [*compiler_of(arch), *secure], ["--sysroot", sysroot(arch)])
    seen = shown.splitlines()
    if arch in ("s390x", "ppc", "ppc64", "mips"):
        told = [_DATA.sub("ADDRESS", line) for line in told]
    if arch == "ppc":
        # clang gives a float on the stack eight bytes there, and GNU's compiler four
        told, seen = ([each for each in all_ if "floats(" not in each] for all_ in (told, seen))
    assert seen == told

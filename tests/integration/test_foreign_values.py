# SPDX-License-Identifier: Apache-2.0
"""What programs for other processors pass and get: their own lines, and soscope's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.machines.crossed import SECURE, TRIPLETS, compiler_of, sysroot
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.run import soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets.build import made_in

pytestmark = pytest.mark.shares

_HERE = Path(__file__).parents[1] / "support" / "machines"
_LIBC = (
    "snprintf open close setenv nanosleep setitimer gmtime_r sigaction sigprocmask fstat pipe"
    " writev getrlimit fcntl wcslen poll select epoll_ctl connect"
)
_BIG = ("s390x", "ppc", "ppc64", "mips")
_DATA = re.compile(r"\{events=EPOLLIN, data=.*?\}\}")  # of two pointers, which share bytes


def names_of_values() -> list[str]:
    """Return the functions whose calls the program writes down."""
    text = (_HERE / "crossed_values.h").read_text()
    own = re.findall(r"^[\w ]*?\**(\w+)\(", text, re.MULTILINE)
    return [*own, *_LIBC.split()]


def _built(folder: Path, compiler: list[str]) -> Path:
    library = [*compiler, "-w", "-shared", "-fPIC", "-o", "libvalues.so"]
    made_in(folder, *library, _HERE / "crossed_values_lib.c")
    search = ["-L.", "-lvalues", "-Wl,-rpath,$ORIGIN", "-fno-builtin", "-w"]
    made_in(folder, *compiler, "-o", "values", _HERE / "crossed_values.c", *search)
    return folder / "values"


def _words(log: Path) -> list[str | Path]:
    names = "+".join(names_of_values())
    header = _HERE / "crossed_values.h"
    return ["-s", "200", "-o", log, "-F", header, "-e", f"{names}@MAIN"]


def _shown(log: Path) -> str:
    shown = re.sub(r" +=", " =", re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", log.read_text()))
    return shown.replace("values->", "").partition("+++")[0]


def _lines(folder: Path, compiler: list[str], words: list[str | Path]) -> tuple[list[str], str]:
    """Return the lines that the program writes down, and the trace's."""
    path, log = _built(folder, compiler), folder / "log"
    done = soscope("trace", *_words(log), *words, "--", path)
    assert done.returncode == 0, done.stderr
    assert is_whole(done.stderr.splitlines()[-1])
    return done.stdout.splitlines(), _shown(log)


@pytest.mark.every(3)
@pytest.mark.parametrize("how", ["agent", "sites", "i386"])
def test_its_lines_are_those_of_this_machine(tmp_path: Path, how: str) -> None:
    compiler = [need("clang"), "-O1", *(("-m32",) if how == "i386" else ())]
    told, shown = _lines(tmp_path, compiler, ["--engine", "sites"] if how == "sites" else [])
    assert shown.splitlines() == told


@pytest.mark.every(3)
@pytest.mark.parametrize("how", ["agent", "sites", "i386"])
def test_its_lines_are_the_same_where_it_runs_already(tmp_path: Path, how: str) -> None:
    path = _built(tmp_path, [need("clang"), "-O1", *(("-m32",) if how == "i386" else ())])
    log = tmp_path / "log"
    words = [*map(str, _words(log)), *(("--engine", "sites") if how == "sites" else ())]
    with attached.running([path, "wait"]) as process:
        tracer = attached.start(process.pid, *words)
        attached.wait_for_hooks(tracer)
        status, told, _ = attached.finish(process)
        notes = tracer.communicate(timeout=attached.LIMIT)[1]
    assert (status, tracer.returncode) == (0, 0)
    assert is_whole(notes.splitlines()[-1])
    assert _shown(log).splitlines() == told.splitlines()


@pytest.mark.every(10)
@pytest.mark.parametrize("arch", TRIPLETS)
def test_values_are_what_the_program_says(tmp_path: Path, arch: str) -> None:
    secure = SECURE if arch == "ppc" else ()
    told, shown = _lines(tmp_path, [*compiler_of(arch), *secure], ["--sysroot", sysroot(arch)])
    seen = shown.splitlines()
    if arch in ("s390x", "ppc64"):
        told = [_DATA.sub("ADDRESS", line) for line in told]
    unlike: tuple[str, ...] = ()
    if arch in _BIG:  # of the two fields of different sizes one is nowhere
        unlike += ("wide(",)
    if arch == "ppc":
        # clang gives a float on the stack eight bytes there, and GNU's compiler four; it passes
        # complex numbers by address, and GNU's compiler in words
        unlike += ("floats(", "turned(", "turned_wide(", "complexes(")
    told, seen = ([each for each in all_ if not each.startswith(unlike)] for all_ in (told, seen))
    assert seen == told
    assert not any("{d=" in line for line in shown.splitlines()) or arch not in _BIG

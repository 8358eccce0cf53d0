# SPDX-License-Identifier: Apache-2.0
"""Entries with room for a call: the addresses of functions that nm prints, whoever lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.elf.sections import Sections, patchable_entries
from soscope.binfmt.isa.x86.code import nops
from soscope.linker.library import open_image
from tests.support.files.elffiles import built, nm
from tests.support.machines.tools import need

_TEXT = """
#define ALONE __attribute__((noinline))
static int ALONE inner(int a) { return a * 3; }
int ALONE outer(int a) { return inner(a) + 1; }
int ALONE left_out(int a) { return inner(a) + 2; }
int ALONE __attribute__((patchable_function_entry(0, 0))) without(int a) { return inner(a) + 4; }
int main(int count, char **words) { return outer(count) + without(count); }
"""
_FUNCTIONS = ("inner", "outer", "left_out", "main")
_SHARED = ("-fPIC", "-shared")


def _entries(path: Path) -> tuple[set[int], set[tuple[int, ...]]]:
    """Return the entries, and the forms of their no-operations."""
    image = open_image(str(path))
    entries = patchable_entries(image, Sections.read(image))
    assert entries == sorted(set(entries))
    return set(entries), {tuple(nops(image.read(vaddr, 16, "code"))) for vaddr in entries}


def _named(path: Path) -> dict[str, int]:
    return {name: value for value, _, letter, name in nm(path) if letter in "tT"}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    "flags",
    [_SHARED, ("-no-pie",), (*_SHARED, "-Wl,-z,pack-relative-relocs"), (*_SHARED, "-fuse-ld=lld")],
    ids=["shared", "no-pie", "relr", "lld"],
)
def test_entries_are_those_of_the_functions(
    compiler: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    need(compiler, "ld.lld")
    path = built(tmp_path, "lib", _TEXT, *flags, "-fpatchable-function-entry=5", compiler=compiler)
    named = _named(path)
    entries, forms = _entries(path)
    assert entries == {named[name] for name in _FUNCTIONS}
    assert forms == {(1, 1, 1, 1, 1) if compiler == "gcc" else (5,)}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_room_in_front_of_a_function(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    path = built(
        tmp_path, "lib", _TEXT, *_SHARED, "-fpatchable-function-entry=6,2", compiler=compiler
    )
    named = _named(path)
    assert _entries(path)[0] == {named[name] - 2 for name in _FUNCTIONS}


def test_functions_that_the_linker_leaves_out(tmp_path: Path) -> None:
    """Clang ties each entry to its function; what is not needed takes its own along."""
    need("clang")
    flags = ("-ffunction-sections", "-Wl,--gc-sections", "-fpatchable-function-entry=5")
    path = built(tmp_path, "program", _TEXT, *flags, compiler="clang")
    named = _named(path)
    assert "left_out" not in named
    assert _entries(path)[0] == {named[name] for name in _FUNCTIONS if name != "left_out"}


def test_none(tmp_path: Path) -> None:
    assert _entries(built(tmp_path, "lib", _TEXT, *_SHARED)) == (set(), set())


def test_the_mark_of_a_landing_is_no_nop() -> None:
    assert nops(b"\xf3\x0f\x1e\xfa\x90\x66\x90\xc3") == [1, 2]
    assert nops(b"\xc3\x90") == []
    assert nops(b"") == []

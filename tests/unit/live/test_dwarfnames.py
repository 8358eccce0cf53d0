# SPDX-License-Identifier: Apache-2.0
"""Names that only DWARF has: the values that nm read before they were taken out."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from soscope.binfmt.dwarf.names import DwarfError
from soscope.binfmt.source import FileSource
from soscope.live.names.dwarfnames import DwarfNames
from soscope.live.names.staticnames import ImageNames
from tests.support.files.elffiles import build_id, built, nm, run, split
from tests.support.machines.tools import need

PROGRAM = """
static __attribute__((noinline)) int hidden_function(int a) { return a * 3 + 1; }
static int counter = 7, plain_array[4] = {1};
static __thread int each = 4;
__attribute__((noinline, used)) int shown(int a)
{
	static int counter_in_function;
	return a + hidden_function(a) + counter_in_function++ + each++;
}
static inline __attribute__((always_inline)) int inlined(int a) { return a + 1; }
static int f(int a) { return a - 1; }
int (*volatile ways[])(int) = {hidden_function, f};
extern int declared;
int main(void) { return shown(counter++) + inlined(counter) + plain_array[counter & 3]; }
"""
NAMES = ("hidden_function", "counter", "plain_array", "shown", "f")
FLAGS = [
    ("gcc", "-gdwarf-5"),
    ("gcc", "-gdwarf-4"),
    ("gcc", "-g", "-no-pie", "-fno-pie"),
    ("gcc", "-g", "-gz=zlib"),
    ("gcc", "-g", "-gz=zlib-gnu"),
    ("gcc", "-gdwarf-2"),
    ("gcc", "-gdwarf-4", "-fdebug-types-section"),
    ("gcc", "-g", "-m32"),
    ("gcc", "-g", "-fdebug-types-section"),
    ("gcc", "-g", "-flto"),
    ("clang", "-gdwarf-5"),
    ("clang", "-gdwarf-4"),
]


class Names:
    """The names of a file, open as long as this is."""

    def __init__(self, path: Path, roots: list[str] | None = None) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)
        self.image = ImageNames(
            FileSource(self.descriptor, str(path)),
            build_id=build_id(path),
            path=str(path),
            roots=roots or [""],
        )
        self.dwarf = DwarfNames(self.image)

    def __del__(self) -> None:
        os.close(self.descriptor)


def program(folder: Path, compiler: str, *flags: str) -> tuple[Path, dict[str, tuple[int, int]]]:
    """Build PROGRAM and take NAMES out of its symbols; return what they were."""
    need(compiler)
    path = built(folder, "program", PROGRAM, *flags, compiler=compiler)
    known = {name: (value, size) for value, size, _, name in nm(path) if name in NAMES}
    assert set(known) == set(NAMES)
    run("objcopy", *(word for name in NAMES for word in ("-N", name)), path)
    assert not set(NAMES) & {row[3] for row in nm(path)}
    return path, known


def check(names: Names, known: dict[str, tuple[int, int]]) -> None:
    """Compare what is found with what nm said."""
    for name, (value, size) in known.items():
        found = names.dwarf.find(name)
        assert [one.vaddr for one in found] == [value], (name, names.image.notes)
        is_function = name in {"hidden_function", "shown", "f"}
        assert found[0].is_function == is_function
        if is_function:
            assert found[0].size == size
            for addr in (value, value + size - 1):
                place = names.dwarf.at(addr)
                assert place is not None
                assert (place.name, place.vaddr) == (name, value)
    for missing in ("declared", "inlined", "counter_in_function", "each", "int", "nothing"):
        assert names.dwarf.find(missing) == []
    assert names.dwarf.at(8) is None


@pytest.mark.parametrize("how", FLAGS, ids=" ".join)
def test_functions_and_variables(how: tuple[str, ...], tmp_path: Path) -> None:
    path, known = program(tmp_path, *how)
    names = Names(path)
    check(names, known)
    assert names.image.notes == []


def test_in_a_debug_file(tmp_path: Path) -> None:
    path, known = program(tmp_path, "gcc", "-g")
    run("objcopy", "-w", "-N", "*", path)
    split(path, tmp_path / "program.debug")
    names = Names(path)
    check(names, known)
    assert names.image.debug_path == str(tmp_path / "program.debug")


def test_not_in_a_debug_file_with_symbols(tmp_path: Path) -> None:
    path, _ = program(tmp_path, "gcc", "-g")
    split(path, tmp_path / "program.debug")
    names = Names(path)
    assert names.dwarf.find("shown") == []
    assert names.image.debug is not None


@pytest.mark.parametrize("shared", [False, True], ids=["one", "shared"])
def test_what_dwz_moved(shared: bool, tmp_path: Path) -> None:
    need("dwz")
    path, known = program(tmp_path, "gcc", "-g")
    twin = tmp_path / "twin"
    shutil.copy(path, twin)
    if shared:
        run("dwz", "-m", tmp_path / "common.debug", "-r", path, twin)
        assert ".gnu_debugaltlink" in run("readelf", "-SW", path)
    else:
        run("dwz", path)
    check(Names(path), known)
    if shared:
        (tmp_path / "common.debug").unlink()
        names = Names(path)
        assert names.dwarf.find("shown") == []
        assert "common.debug, which is missing" in names.image.notes[0]
        other = built(tmp_path, "common.debug", PROGRAM, "-g")
        names = Names(path)
        assert names.dwarf.find("shown") == []
        assert f"{other}: not used: it is of another build-id" in names.image.notes


CXX = """
namespace ns { __attribute__((noinline)) int work(int a) { return a * 7; }
int shared = 1; struct Thing { int call(int a); static int member; }; }
int ns::Thing::call(int a) { return a + shared; }
int ns::Thing::member = 2;
int main(int argc, char **argv) { ns::Thing thing; return ns::work(argc) + thing.call(argc); }
"""


def test_cxx_has_linkage_names(tmp_path: Path) -> None:
    need("g++")
    path = built(tmp_path, "cxx", CXX, "-g", compiler="g++")
    known = {row[3]: row[0] for row in nm(path) if row[3].startswith("_Z")}
    assert len(known) == 4
    run("objcopy", *(word for name in known for word in ("-N", name)), path)
    names = Names(path)
    for name, value in known.items():
        assert [one.vaddr for one in names.dwarf.find(name)] == [value]
    for plain in ("work", "shared", "call", "member"):
        assert names.dwarf.find(plain) == []


def test_without_dwarf(tmp_path: Path) -> None:
    path, _ = program(tmp_path, "gcc")
    names = Names(path)
    assert names.dwarf.find("shown") == []
    assert names.image.notes == []


@pytest.mark.parametrize("section", [".debug_info", ".debug_abbrev", ".debug_str"])
def test_damaged_dwarf_is_said(section: str, tmp_path: Path) -> None:
    path, _ = program(tmp_path, "gcc", "-g")
    junk = tmp_path / "junk"
    junk.write_bytes(b"hidden_function\0" + bytes(range(256)) * 40)
    run("objcopy", "--update-section", f"{section}={junk}", path)
    names = Names(path)
    names.dwarf.find("hidden_function")
    names.dwarf.at(0x1150)
    for note in names.image.notes:
        assert note.startswith("DWARF: ")


@pytest.mark.parametrize("how", ["-gdwarf-4", "-gdwarf-5"])
def test_damage_is_a_note_or_nothing(how: str, tmp_path: Path) -> None:
    path, known = program(tmp_path, "gcc", how)
    whole = path.read_bytes()
    sections = {
        name: slice(int(at, 16), int(at, 16) + int(size, 16))
        for name, at, size in re.findall(
            r"(\.debug_(?:info|abbrev|line|str))\s+PROGBITS\s+\w+ (\w+) (\w+)",
            run("readelf", "-SW", path),
        )
    }
    assert len(sections) == 4
    chance = random.Random(11)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            place = sections[chance.choice(sorted(sections))]
            at = chance.randrange(place.start, place.stop)
            damaged[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        copy = tmp_path / "damaged"
        copy.write_bytes(damaged)
        names = Names(copy)
        for name, (value, _) in known.items():
            names.dwarf.find(name)
            names.dwarf.at(value)
            with contextlib.suppress(DwarfError):
                names.dwarf.signature(value, name, 5.0)
        assert all(note.startswith("DWARF: ") for note in names.image.notes)


def test_files_are_closed(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    path, known = program(tmp_path, "gcc", "-g")
    names = Names(path)
    check(names, known)
    del names
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before

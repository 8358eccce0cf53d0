# SPDX-License-Identifier: Apache-2.0
"""Functions of a profile by link-time address, beside what nm and addr2line say of the file."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from soscope.instruments.prof.model import ProfFunction
from soscope.instruments.prof.names import UNKNOWN, ImageFunctions
from tests.support.files import elffiles
from tests.support.machines.tools import need
from tests.support.processes.run import soscope

C = """\
#include <stdlib.h>
static __attribute__((noinline)) int hidden(int a)
{
    return a * rand();
}
int first(int a)
{
    return hidden(a) + 1;
}
int second(int a) { return first(a) + 2; }
"""
CXX = """\
#include <string>
namespace shop {
int price(const std::string &of, int many) { return (int)of.size() * many; }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("naming")
    return elffiles.built(folder, "libnamed.so", C, "-g", "-shared", "-fPIC", "-Wl,-z,lazy")


def _texts(path: Path) -> dict[str, tuple[int, int]]:
    """Return (value, size) of the functions that have a size."""
    return {name: (value, size) for value, size, kind, name in elffiles.nm(path) if size}


def test_every_byte_of_a_function_is_its(library: Path) -> None:
    functions = ImageFunctions(str(library))
    for name in ("hidden", "first", "second"):
        value, size = _texts(library)[name]
        found = functions.at_all(list(range(value, value + size)))
        assert {each.symbol for each in found} == {name}
        assert all(each is found[0] for each in found)
        one = found[0]
        assert (one.image, one.path) == ("libnamed.so", str(library))
        assert (one.addr, one.size) == (value, size)
        said = elffiles.run("addr2line", "-e", library, hex(value)).strip()
        assert said == f"{one.file}:{one.line}"
    assert functions.notes == []


def test_what_no_symbol_holds_is_unknown(library: Path) -> None:
    functions = ImageFunctions(str(library))
    value, size = max(_texts(library).values())
    beyond = functions.at(value + size + 0x100)
    assert (beyond.symbol, beyond.addr, beyond.size) == (UNKNOWN, value + size + 0x100, 0)


def test_a_stub_of_the_linker(library: Path) -> None:
    said = elffiles.run("objdump", "-d", "--no-show-raw-insn", library)
    (addr,) = re.findall(r"^0*([0-9a-f]+) <rand@plt>:", said, re.MULTILINE)
    functions = ImageFunctions(str(library))
    stub = functions.at(int(addr, 16) + 4)
    assert (stub.symbol, stub.addr, stub.size) == ("rand@plt", int(addr, 16), 0)


def test_a_range_is_cut_where_functions_begin_and_end(library: Path) -> None:
    functions = ImageFunctions(str(library))
    texts = _texts(library)
    start = texts["hidden"][0] + 3
    end = sum(texts["second"]) - 1
    stretches = functions.in_range(start, end)
    assert stretches[0][0] == start
    assert stretches[-1][1] == end
    truth: list[tuple[int, str]] = []
    for vaddr in range(start, end):
        held = [name for name, (at, size) in texts.items() if at <= vaddr < at + size]
        truth.append((vaddr, held[0] if held else UNKNOWN))
    assert [
        (vaddr, each.symbol) for begin, finish, each in stretches for vaddr in range(begin, finish)
    ] == truth
    assert [each.symbol for _, _, each in stretches if each.symbol != UNKNOWN] == [
        "hidden",
        "first",
        "second",
    ]
    assert functions.in_range(end, start) == []


def test_names_of_cxx_have_their_parameters(tmp_path: Path) -> None:
    path = elffiles.built(tmp_path, "libshop.so", CXX, "-shared", "-fPIC", compiler="g++")
    (value,) = (row[0] for row in elffiles.nm(path) if "price" in row[3])
    price = ImageFunctions(str(path), with_lines=False).at(value)
    assert price.symbol == "shop::price(std::string const&, int)"
    assert price.file is None


def test_a_stripped_file_is_named_by_its_debug_file(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "libnamed.so"
    stripped.write_bytes(library.read_bytes())
    texts = _texts(stripped)
    whole = ImageFunctions(str(library)).at(texts["hidden"][0])
    elffiles.split(stripped, tmp_path / "libnamed.so.debug")
    names = ImageFunctions(str(stripped))
    assert _said(names.at(texts["hidden"][0])) == _said(whole)
    assert whole.line == 3


def _said(function: ProfFunction) -> tuple[object, ...]:
    return function.symbol, function.addr, function.size, function.file, function.line


@pytest.mark.parametrize(("content", "reason"), [(None, "cannot be read"), (b"text", "e_ident")])
def test_a_file_that_has_no_names(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "libx.so"
    if content is not None:
        path.write_bytes(content)
    names = ImageFunctions(str(path))
    assert (names.at(0x1000).symbol, names.in_range(0, 9)[0][2].symbol) == (UNKNOWN, UNKNOWN)
    (note,) = names.notes
    assert reason in note


def test_the_file_of_another_build_names_nothing(library: Path) -> None:
    value, _ = _texts(library)["first"]
    assert ImageFunctions(str(library), elffiles.build_id(library)).at(value).symbol == "first"
    other = ImageFunctions(str(library), b"\x12\x34")
    assert other.at(value).symbol == UNKNOWN
    assert "not the file that ran, which has build-id 1234" in other.notes[0]
    checksum = ImageFunctions(str(library), bytes(range(8)))
    assert "not the file that ran: its functions have no names" in checksum.notes[0]


def test_unwind_tables_tell_functions_of_a_stripped_file(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / library.name
    elffiles.run("objcopy", "--strip-all", library, stripped)
    value, size = _texts(library)["hidden"]
    functions = ImageFunctions(str(stripped))
    found = functions.at_all([value, value + 1, value + size - 1])
    assert all(each is found[0] for each in found)
    assert (found[0].symbol, found[0].addr, found[0].size) == (UNKNOWN, value, size)


JAILED = """
long twist(long);
int main(void)
{
    long sum = 0;
    for (int i = 0; i < 100000; i++)
        sum += twist(i);
    return sum == 1;
}
"""
TWIST = """
__attribute__((noinline)) static long hidden(long x)
{
    for (int i = 0; i < 30; i++)
        __asm__ volatile("" : "+r"(x));
    return x;
}
long twist(long x) { return hidden(x) + 1; }
"""


def _jailed(folder: Path) -> Path:
    """Make a folder with a program, what it needs, and nothing else."""
    twist = elffiles.built(folder, "libtwist.so", TWIST, "-shared", "-fPIC", "-pg", "-mfentry")
    program = elffiles.built(folder, "jailed", JAILED, str(twist), "-Wl,-rpath,/inside")
    need("ldd")
    listed = elffiles.run("ldd", program)
    needed = [word for line in listed.splitlines() for word in line.split() if word[0] == "/"]
    jail = folder / "jail"
    copies = {"/inside/libtwist.so": twist, "/inside/jailed": program}
    for place, file in [(each, Path(each)) for each in needed] + [*copies.items()]:
        if file.exists():
            (jail / place[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, jail / place[1:])
    twist.unlink()
    return jail


@pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
@pytest.mark.parametrize("mode", [["--mode", "time"], ["--boundary", "count"]])
def test_functions_behind_another_root_have_names(mode: list[str], tmp_path: Path) -> None:
    """The loader's paths begin at the program's own root, where another has no such file."""
    jail = _jailed(tmp_path)
    command = [need("chroot"), str(jail), "/inside/jailed"]
    done = soscope("prof", "run", "-q", "--json", *mode, "--", *command)
    said = json.loads(done.stderr)
    assert not [note for note in said["notes"] if "have no names" in note]
    if mode[0] == "--mode":
        rows = {row["symbol"]: row["calls"] for row in said["functions"]}
        assert (rows["twist"], rows["hidden"]) == (100_000, 100_000)

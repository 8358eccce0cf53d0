# SPDX-License-Identifier: Apache-2.0
"""Address to symbol in one image: what nm, objdump and gdb say, and what must not be said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.live.names.containing import GAP, INSIDE, UNSIZED
from soscope.live.names.locate import DYNAMIC, STUB, Locator
from soscope.live.names.staticnames import STATIC, ImageNames
from tests.support.files.elffiles import build_id, built, nm, run

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
static __attribute__((noinline)) int inner(int a) { return a * 3 + rand(); }
int outer(int a) { return a + inner(a); }
__asm__(".globl label\\n.type label,@function\\nlabel: nop; nop; nop\\n"
        ".globl spaced\\n.type spaced,@function\\nspaced: nop; nop\\n.size spaced,.-spaced\\n"
        ".skip 40,0x90\\n"
        ".globl big\\n.type big,@function\\nbig: nop; nop\\nsmall: nop; nop\\n"
        ".size small,.-small\\n"
        ".type small,@function\\nnop\\n.size big,.-big\\n"
        ".weak big_weak\\n.set big_weak,big\\n.size big_weak,5\\n"
        ".set big_local,big\\n.size big_local,5\\n");
int zeros[100], ones[3] = {1, 1, 1};
int main(int argc, char **argv)
{
	void (*volatile way)(int) = exit;
	if (argc > 3)
		exit(argc);
	puts(argv[0]);
	if (argc > 2)
		way(outer(argc));
	return zeros[1] + ones[0];
}
"""


def locator(path: Path) -> Locator:
    """Make the locator of a file."""
    source = BufferSource(path.read_bytes(), path.name)
    names = ImageNames(source, build_id=build_id(path), path=str(path), roots=[""])
    return Locator(ElfImage.from_source(source), names)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build PROGRAM once, with everything dynamic, too."""
    return built(tmp_path_factory.mktemp("program"), "program", PROGRAM, "-rdynamic")


def value(path: Path, name: str) -> int:
    """Return what nm says of `name`."""
    return next(row[0] for row in nm(path) if row[3] == name)


def test_every_byte_of_every_sized_symbol(program: Path) -> None:
    where = locator(program)
    rows = [row for row in nm(program) if row[1] and row[2] != "a"]
    assert {"main", "outer", "inner", "zeros", "ones", "big"} < {row[3] for row in rows}
    for start, size, _, _ in rows:
        for addr in {start, start + size // 2, start + size - 1}:
            place = where.at(addr)
            around = [row for row in rows if row[0] <= addr < row[0] + row[1]]
            innermost = max(around, key=lambda row: (row[0], -row[1]))
            assert place.what == INSIDE
            assert place.symbol is not None
            assert place.symbol.value == innermost[0] == addr - place.offset
            names = {row[3] for row in around if row[:2] == innermost[:2]}
            assert place.symbol.name in {name.partition("@")[0] for name in names}
            assert place.is_found


def test_the_innermost_and_of_aliases_the_global_one(program: Path) -> None:
    where = locator(program)
    big = value(program, "big")
    names = [place.symbol and place.symbol.name for place in where.at_all([*range(big, big + 5)])]
    assert names == ["big", "big", "small", "small", "big"]
    rules = [where.at(addr).rule for addr in (big, big + 2)]
    assert rules == [DYNAMIC, STATIC]


def test_what_nobody_owns(program: Path) -> None:
    where = locator(program)
    spaced = value(program, "spaced")
    for behind in (0, 1, 39):
        place = where.at(spaced + 2 + behind)
        assert (place.what, place.offset, place.is_found) == (GAP, behind, False)
        assert place.why == f"{behind} bytes behind the end of spaced"


def test_a_symbol_without_a_size_has_one_address(program: Path) -> None:
    where = locator(program)
    label = value(program, "label")
    place = where.at(label)
    assert place.symbol is not None
    assert (place.what, place.symbol.name, place.offset) == (UNSIZED, "label", 0)
    assert place.is_found
    place = where.at(label + 2)
    assert (place.what, place.is_found) == (UNSIZED, False)
    assert place.why == "2 bytes behind label, which has no size"


def test_furniture_of_the_compiler_owns_nothing(tmp_path: Path) -> None:
    text = """
    int shown(void) { return 1; }
    __attribute__((noinline)) static int unnamed(int a) { return a / 3; }
    int main(int c, char **v) { return unnamed(c) + shown(); }
    """
    path = built(tmp_path, "program", text, "-fno-toplevel-reorder")
    place = value(path, "unnamed")
    run("objcopy", "-N", "unnamed", "-N", "shown", path)
    where = locator(path)
    for addr in (place, place + 1):
        found = where.at(addr)
        assert not found.is_found
        assert found.symbol is None
        assert found.why == "in no symbol"
    start = where.at(value(path, "frame_dummy"))
    assert start.symbol is not None
    assert (start.symbol.name, start.is_found) == ("frame_dummy", True)


def test_outside_of_every_segment(program: Path) -> None:
    where = locator(program)
    for addr in (0x7000_0000, (1 << 64) - 1):
        place = where.at(addr)
        assert (place.what, place.symbol, place.is_found) == (GAP, None, False)


def test_a_stripped_program_says_what_it_exports(program: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    run("objcopy", "--strip-all", program, stripped)
    where = locator(stripped)
    outer, inner = value(program, "outer"), value(program, "inner")
    place = where.at(outer + 1)
    assert place.symbol is not None
    assert (place.symbol.name, place.rule, place.offset) == ("outer", DYNAMIC, 1)
    assert not where.at(inner + 1).is_found


def test_one_and_many_are_the_same(program: Path) -> None:
    addrs = [row[0] + more for row in nm(program) for more in (0, 1, 7)]
    addrs = [addr for addr in addrs if addr < 1 << 32]

    def said(where: Locator, addr: int) -> tuple[object, ...]:
        place = where.at(addr)
        return place.what, place.symbol and place.symbol.index, place.rule, place.offset

    alone = [said(locator(program), addr) for addr in addrs]
    where = locator(program)
    assert [said(where, addr) for addr in addrs] == alone
    many = locator(program).at_all(addrs)
    assert [(p.what, p.symbol and p.symbol.index, p.rule, p.offset) for p in many] == alone


STUBS = [
    *(
        (linker, *flags)
        for linker in ("bfd", "gold", "lld", "mold")
        for flags in (
            ("-Wl,-z,lazy",),
            ("-Wl,-z,now",),
            ("-fcf-protection", "-Wl,-z,lazy"),
            ("-no-pie", "-fno-pie", "-Wl,-z,lazy"),
        )
    ),
    ("bfd", "-fcf-protection", "-Wl,-z,lazy,-z,ibtplt"),
    ("bfd", "-Wl,-z,lazy,-z,bndplt"),
    ("lld", "-Wl,-z,lazy,-z,force-ibt"),
]


@pytest.mark.parametrize("stripped", [False, True], ids=["", "stripped"])
@pytest.mark.parametrize("how", STUBS, ids=" ".join)
def test_stubs_have_the_names_that_objdump_gives(
    how: tuple[str, ...], stripped: bool, tmp_path: Path
) -> None:
    linker, *flags = how
    path = built(tmp_path, "program", PROGRAM, *flags, f"-fuse-ld={linker}")
    check_stubs(path, stripped)


def check_stubs(path: Path, stripped: bool) -> None:
    """Compare the names of stubs with those of objdump, which needs the sections."""
    text = run("objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", path)
    # objdump reads each stub's jump; it does not know those of mold, which gives them symbols
    found = re.findall(r"^([0-9a-f]+) <([\w$]+)(?:@plt|\$plt(?:got)?)>:", text, re.MULTILINE)
    jumps = re.findall(
        r"^ *([0-9a-f]+):.*jmp +\*.*# [0-9a-f]+ <(\w+)@(?:GLIBC|LIBC)", text, re.MULTILINE
    )
    wanted = {int(addr, 16): name for addr, name in found}
    wanted |= {int(addr, 16) & -16: name for addr, name in ([] if found else jumps)}
    assert {"puts", "rand"} <= set(wanted.values())
    if stripped:
        run("objcopy", "--strip-all", path)
    where = locator(path)
    for addr, name in wanted.items():
        for more in (0, 3, 6):
            place = where.at(addr + more)
            assert place.what == STUB, hex(addr)
            assert place.symbol is not None
            assert place.symbol.name == name
            assert place.offset < 16
            assert place.why == f"stub of {name}"
            assert place.is_found
    first = re.search(r"^([0-9a-f]+) <[^>]*@plt-0x10>:", text, re.MULTILINE)
    if first:
        place = where.at(int(first[1], 16))
        assert (place.what, place.symbol) == (STUB, None)
        assert place.why == "the stub that calls the loader"


@pytest.mark.parametrize("flags", [("-fno-pie", "-no-pie"), ("-fPIC", "-shared")], ids=" ".join)
def test_stubs_of_32_bits(flags: tuple[str, ...], tmp_path: Path) -> None:
    text = """
    int puts(const char *); int rand(void);
    int work(void) { return puts("x") + rand(); }
    void _start(void) { work(); }
    """
    library = built(
        tmp_path, "liblow.so", "int puts(const char *a){return 1;} int rand(void){return 2;}",
        "-m32", "-shared", "-fPIC", "-nostdlib",
    )  # fmt: skip
    path = built(tmp_path, "low", text, "-m32", "-nostdlib", "-Wl,-z,lazy", *flags, str(library))
    listing = run("objdump", "-d", "-j", ".plt", path)
    wanted = re.findall(r"^([0-9a-f]+) <(\w+)@plt>:", listing, re.MULTILINE)
    assert {"puts", "rand"} <= {name for _, name in wanted}
    where = locator(path)
    for addr, name in wanted:
        place = where.at(int(addr, 16) + 2)
        assert place.symbol is not None
        assert (place.what, place.symbol.name, place.offset) == (STUB, name, 2)


def test_a_jump_of_the_program_is_no_stub(tmp_path: Path) -> None:
    text = """
    #include <stdlib.h>
    __attribute__((aligned(16), noinline)) static int same(void) { return rand(); }
    int (*volatile way)(void) = same;
    int main(void) { return way(); }
    """
    path = built(tmp_path, "program", text, "-O2", "-fno-plt", "-Wl,-z,now")
    jump = value(path, "same")
    run("objcopy", "-N", "same", path)
    place = locator(path).at(jump)
    assert place.what != STUB
    assert not place.is_found


@pytest.mark.parametrize("flags", [("-no-pie", "-fno-pie"), ("-static",)], ids=" ".join)
def test_gdb_says_the_same_of_functions(flags: tuple[str, ...], tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM, *flags)
    chosen = [row for row in nm(path) if row[1] and row[2] in "tT"][::9]
    script = tmp_path / "script"
    script.write_text("".join(f"info symbol {row[0] + row[1] - 1}\n" for row in chosen))
    said = run("gdb", "-nx", "-batch", "-x", script, path).splitlines()
    where = locator(path)
    rows = nm(path)
    for row, line in zip(chosen, said, strict=True):
        place = where.at(row[0] + row[1] - 1)
        assert place.symbol is not None
        parts = re.match(r"(\S+)(?: \+ (\d+))? in section", line)
        assert parts, line
        # gdb leaves suffixes of the compiler's clones out
        base = parts[1].partition("[")[0]
        assert [row for row in rows if row[0] == place.symbol.value and row[3].startswith(base)]
        assert int(parts[2] or 0) == place.offset

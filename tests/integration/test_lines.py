# SPDX-License-Identifier: Apache-2.0
"""Lines of code, against what LLVM says, for all versions of DWARF that compilers write.

The binutils' addr2line 2.40 takes another file than gdb and LLVM where DWARF 5 names one twice.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from soscope.binfmt.dwarf.lines import DwarfLines, Place
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import FileSource
from tests.support.machines.tools import need
from tests.support.processes.run import imported

SOURCES = {
    "main.c": """\
#include "inner/twice.h"
int other(int x);
int cold(int x) { return x * 7 + 3; }

int main(int argc, char **argv)
{
	int sum = 0;
	for (int i = 0; i < argc; i++)
		sum += twice(i) + other(i);
	return sum ? cold(sum) : 1;
}
""",
    "other.c": """\
#include "inner/twice.h"
__attribute__((section(".text.apart"))) int apart(int x) { return x - 1; }
int other(int x)
{
	if (x > 5)
		return apart(twice(x));
	return x;
}
""",
    "inner/twice.h": "static __attribute__((noinline)) int twice(int x)\n{\n\treturn x + x;\n}\n",
}
HOW = [
    ("gcc", "-gdwarf-2"),
    ("gcc", "-gdwarf-3"),
    ("gcc", "-gdwarf-4", "-gz"),
    ("gcc", "-gdwarf-5"),
    ("gcc", "-gdwarf-5", "-ffunction-sections", "-gz"),
    ("clang", "-gdwarf-4"),
    ("clang", "-gdwarf-5"),
    ("clang", "-gdwarf-5", "-ffunction-sections", "-gz"),
    ("gcc", "-gdwarf-4", "-m32"),
    ("gcc", "-gdwarf-3", "-gdwarf64"),
    ("gcc", "-gdwarf-5", "-gdwarf64"),
    ("clang", "-gdwarf-5", "-gdwarf64"),
    # the linker alone, for machines with other sizes of addresses and orders of bytes
    *(
        ("clang", f"--target={target}", version, *("-ffreestanding", "-nostdlib", "-fuse-ld=lld"))
        for target in (
            "powerpc-linux-gnu",
            "powerpc64-linux-gnu",
            "mips-linux-gnu",
            "arm-linux-gnu",
        )
        for version in ("-gdwarf-4", "-gdwarf-5", "-gdwarf-2")
    ),
    (
        "clang",
        "--target=powerpc64-linux-gnu",
        "-gdwarf-5",
        "-gdwarf64",
        "-nostdlib",
        "-fuse-ld=lld",
    ),
]


def told(file: Path, vaddrs: list[int]) -> list[tuple[str, int] | None]:
    """Return what llvm-symbolizer says."""
    words = [need("llvm-symbolizer"), "--output-style=GNU", "--no-inlines", "--functions=none"]
    words += ["-e", str(file), *map(hex, vaddrs)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    places: list[tuple[str, int] | None] = []
    for line in lines:
        name, _, number = line.split(" (")[0].rpartition(":")
        places.append((name, int(number)) if number not in ("0", "?") else None)
    return places


@pytest.mark.parametrize("how", HOW, ids=" ".join)
def test_lines_are_those_of_llvm(tmp_path: Path, how: tuple[str, ...]) -> None:
    compiler, *flags = how
    need(compiler)
    (tmp_path / "inner").mkdir()
    for name, source in SOURCES.items():
        (tmp_path / name).write_text(source)
    words = [compiler, "-O1", *flags, "main.c", "other.c", "-o", "program"]
    subprocess.run(words, cwd=tmp_path, check=True)
    file = tmp_path / "program"
    descriptor = os.open(file, os.O_RDONLY)
    try:
        image = ElfImage.from_source(FileSource(descriptor, str(file)))
        code = next(each for each in Sections.read(image).all if each.name == ".text")
        vaddrs = list(range(code.vaddr, code.vaddr + code.size))
        lines = DwarfLines(image)
        seen = [lines.at(vaddr) for vaddr in vaddrs]
    finally:
        os.close(descriptor)
    right = told(file, vaddrs)
    assert [place and (os.path.normpath(place[0]), place[1]) for place in seen] == [
        place and (os.path.normpath(place[0]), place[1]) for place in right
    ]
    assert {place[0].rpartition("/")[2] for place in seen if place} == {
        "main.c",
        "other.c",
        "twice.h",
    }


def kept_and_dropped(folder: Path, compiler: str, *flags: str) -> tuple[Path, Path]:
    """Compile a program that calls no `dropped`; return it with this function, and without."""
    statements = "".join(f"\tsum += values[{n % 9}] * {n};\n" for n in range(900))
    (folder / "dropped.c").write_text(
        "extern volatile int values[9];\n"
        f"int dropped(int sum)\n{{\n{statements}\treturn sum;\n}}\n"
        "int kept(int x)\n{\n\tint sum = values[1];\n\treturn sum * x;\n}\n"
    )
    (folder / "calls.c").write_text(
        "volatile int values[9];\nint kept(int);\n"
        "int main(int argc, char **argv)\n{\n\tvalues[0] = kept(argc);\n\treturn values[2];\n}\n"
    )
    words = [need(compiler), "-O0", *flags, "-ffunction-sections", "calls.c", "dropped.c"]
    whole, cut = folder / "whole", folder / "cut"
    subprocess.run([*words, "-o", str(whole)], cwd=folder, check=True)
    subprocess.run([*words, "-Wl,--gc-sections", "-o", str(cut)], cwd=folder, check=True)
    return whole, cut


def functions(file: Path) -> dict[str, tuple[int, int]]:
    """Return the address and the size of each function."""
    words = [need("nm"), "-S", "--defined-only", str(file)]
    rows = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    fields = [row.split() for row in rows]
    return {
        row[3]: (int(row[0], 16), int(row[1], 16))
        for row in fields
        if len(row) == 4 and row[2] in "tT"
    }


def lines_of(file: Path, functions: dict[str, tuple[int, int]]) -> dict[str, list[Place]]:
    """Return what soscope says of each byte of some functions."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        lines = DwarfLines(ElfImage.from_source(FileSource(descriptor, str(file))))
        return {
            name: [lines.at(vaddr) for vaddr in range(start, start + size)]
            for name, (start, size) in functions.items()
        }
    finally:
        os.close(descriptor)


GARBAGE = [
    ("gcc", "-gdwarf-2"),
    ("gcc", "-gdwarf-4"),
    ("gcc", "-gdwarf-5"),
    ("gcc", "-gdwarf-5", "-fuse-ld=lld"),
    ("gcc", "-gdwarf-5", "-fuse-ld=gold"),
    ("clang", "-gdwarf-4"),
    ("clang", "-gdwarf-5"),
    ("clang", "-gdwarf-5", "-fuse-ld=lld"),
    ("gcc", "-gdwarf-4", "-m32"),
]


@pytest.mark.parametrize("how", GARBAGE, ids=" ".join)
def test_functions_that_the_linker_dropped_have_no_lines(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    whole, cut = kept_and_dropped(tmp_path, *how)
    left = functions(cut)
    assert "dropped" in functions(whole)
    assert "dropped" not in left
    names = {name: place for name, place in functions(whole).items() if name in left}
    right = lines_of(whole, names)
    numbers = {place[1] for place in right["kept"] if place}
    assert {908, 909} < numbers <= set(range(906, 911))
    assert lines_of(cut, {name: left[name] for name in names}) == right


def test_no_package_is_needed_for_lines() -> None:
    modules = "soscope.binfmt.dwarf.lines, soscope.live.names.dwarfnames"
    assert not {each for each in imported(f"import {modules}") if "elftools" in each}

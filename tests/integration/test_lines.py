# SPDX-License-Identifier: Apache-2.0
"""Lines of code, against what LLVM says, for all versions of DWARF that compilers write.

The binutils' addr2line 2.40 takes another file than gdb and LLVM where DWARF 5 names one twice.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from soscope.binfmt.dwarflines import DwarfLines
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


def test_no_package_is_needed_for_lines() -> None:
    assert not {each for each in imported("import soscope.binfmt.dwarflines") if "elftools" in each}

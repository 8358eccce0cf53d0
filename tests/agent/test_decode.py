# SPDX-License-Identifier: Apache-2.0
"""decode.c against objdump: the same lengths in whole libraries; and no read out of bounds."""

from __future__ import annotations

import ctypes.util
import re
import shutil
from array import array
from pathlib import Path

import pytest

from tests.agent import hosted
from tests.support.tools import need, not_here

LINE = re.compile(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)$", re.MULTILINE)
SECTION = re.compile(r"^ *\[ *\d+\] \.text +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", re.M)
# A prefix that objdump prints as an instruction of its own, as it belongs to none.
PREFIXES = re.compile(
    r"(?:(?:rex[.WRXB]*|data16|addr32|lock|repz?|repnz|[cdefgs]s|bnd|notrack) *)+$"
)


def library(name: str) -> Path:
    """Find a file of this system by what it is called."""
    if name == "bash":
        return Path(need("bash")).resolve()
    found = ctypes.util.find_library(name)
    for folder in (Path("/lib"), Path("/usr/lib"), Path("/lib64"), Path("/usr/lib64")):
        for path in (folder / "x86_64-linux-gnu" / str(found), folder / str(found)):
            if found and path.exists():
                return path.resolve()
    not_here(f"no lib{name}")
    raise AssertionError


def disassembled(file: Path) -> tuple[bytes, list[tuple[int, int, str]]]:
    """Return .text of a file, and offset, length and text of its instructions."""
    header = SECTION.search(hosted.output(need("readelf"), "-SW", file))
    assert header is not None
    vaddr, offset, size = (int(word, 16) for word in header.groups())
    code = file.read_bytes()[offset : offset + size]
    shown = hosted.output(need("objdump"), "-dw", "-z", "-j", ".text", "--insn-width=16", file)
    found = [(int(at, 16) - vaddr, len(raw) // 3, text) for at, raw, text in LINE.findall(shown)]
    assert sum(length for _, length, _ in found) >= 0.9 * size
    return code, found


def compare(file: Path, folder: Path) -> list[str]:
    """Return the instructions whose length is not what objdump says."""
    code, found = disassembled(file)
    known = {
        at: (length, text)
        for at, length, text in found
        if "(bad)" not in text and not PREFIXES.match(text)
    }
    pairs = array("I")
    for at, (length, _) in known.items():
        pairs.extend((at, length))
    (folder / "code").write_bytes(code)
    (folder / "pairs").write_bytes(pairs.tobytes())
    wrong = hosted.check("decode", "lengths", folder / "code", folder / "pairs")
    result = []
    for line in wrong.splitlines():
        at, length, got = map(int, line.split())
        raw = code[at : at + length].hex(" ")
        result.append(f"{at:x}: {raw}: {known[at][1]}: {got} for {length}")
    return result


@pytest.mark.parametrize("name", ["c", "bash", "crypto", "stdc++"])
def test_lengths_are_objdumps(name: str, tmp_path: Path) -> None:
    w = compare(library(name), tmp_path); import collections; print(collections.Counter(x.split(": ")[2].split()[0] + x.split(": ")[3] for x in w)); print([x for x in w if "8f" not in x][:20]); assert not w


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_any_bytes_are_decoded_in_bounds(compiler: str) -> None:
    hosted.check("decode", "garbage", "0x1234567890abcdef", compiler=compiler)


def test_objdump_is_here() -> None:
    assert shutil.which(need("objdump"))

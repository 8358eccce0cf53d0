# SPDX-License-Identifier: Apache-2.0
"""code_x86_64_decode.c against objdump: the same lengths; and no read out of bounds."""

from __future__ import annotations

import ctypes.util
import re
from array import array
from bisect import bisect
from pathlib import Path

import pytest

from tests.agent import hosted
from tests.support.machines.tools import need, not_here

LINE = re.compile(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)$", re.MULTILINE)
# Tables in .text belong to no function.
FUNCTION = re.compile(r" FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)$", re.MULTILINE)
SECTION = re.compile(
    r"^ *\[ *\d+\] \.text +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", re.MULTILINE
)
# A prefix that objdump prints as an instruction of its own, as it belongs to none.
PREFIXES = re.compile(
    r"(?:(?:rex[.WRXB]*|data16|addr32|lock|repz?|repnz|[cdefgs]s|bnd|notrack) *)+$"
)
ALL = 1 << 40  # bytes of .text


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


def disassembled(file: Path, most: int) -> tuple[bytes, list[tuple[int, int, str]]]:
    """Return the first bytes of a file's .text, and offset, length and text of instructions."""
    header = SECTION.search(hosted.output(need("readelf"), "-SW", file))
    assert header is not None
    vaddr, offset, size = (int(word, 16) for word in header.groups())
    size = min(size, most)
    code = file.read_bytes()[offset : offset + size]
    words = [need("objdump"), "-dw", "-z", "-j", ".text", "--insn-width=16"]
    shown = hosted.output(*words, f"--stop-address={vaddr + size:#x}", file)
    frames = hosted.output(need("readelf"), "--debug-dump=frames", file)
    ranges = sorted((int(low, 16), int(high, 16)) for low, high in FUNCTION.findall(frames))
    starts = [low for low, _ in ranges]
    found = []
    for word, raw, text in LINE.findall(shown):
        at = int(word, 16)
        index = bisect(starts, at) - 1
        if index >= 0 and at < ranges[index][1] <= vaddr + size:
            found.append((at - vaddr, len(raw) // 3, text))
    assert sum(length for _, length, _ in found) >= size / 2
    return code, found


def compare(file: Path, folder: Path, most: int = ALL) -> list[str]:
    """Return the instructions whose length is not what objdump says."""
    code, found = disassembled(file, most)
    pairs = array("I")
    known = {}
    for at, length, text in found:
        if "(bad)" not in text and not PREFIXES.match(text):
            # AMD's XOP is nothing that compilers make: refused, never taken for another
            is_xop = code[at] == 0x8F and code[at + 1] & 0x38
            known[at] = (length, text)
            pairs.extend((at, 0 if is_xop else length))
    (folder / "code").write_bytes(code)
    (folder / "pairs").write_bytes(pairs.tobytes())
    wrong = hosted.check("decode", "lengths", folder / "code", folder / "pairs")
    result = []
    for line in wrong.splitlines():
        at, length, got = map(int, line.split())
        raw = code[at : at + length].hex(" ")
        result.append(f"{at:x}: {raw}: {known[at][1]}: {got} for {length}")
    return result


# Cryptography has instructions of nearly all kinds: four in five of libcrypto's stand in this much.
@pytest.mark.parametrize(("name", "most"), [("c", 1 << 18), ("crypto", 1 << 20)])
def test_lengths_are_objdumps(name: str, most: int, tmp_path: Path) -> None:
    assert not compare(library(name), tmp_path, most)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["c", "bash", "crypto", "stdc++"])
def test_lengths_are_objdumps_in_all_of_a_file(name: str, tmp_path: Path) -> None:
    assert not compare(library(name), tmp_path)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_any_bytes_are_decoded_in_bounds(compiler: str) -> None:
    hosted.check("decode", "garbage", "0x1234567890abcdef", compiler=compiler)

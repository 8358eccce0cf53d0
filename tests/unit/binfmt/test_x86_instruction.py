# SPDX-License-Identifier: Apache-2.0
"""How long instructions of x86 are, where they go, which go through slots: as objdump has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.binfmt.isa.x86 import code as instruction
from soscope.binfmt.isa.x86.code import through
from soscope.binfmt.stubs.finder import Through
from soscope.linker.library import open_image
from tests.support.files.elffiles import built, run
from tests.support.machines.tools import need

_LINE = re.compile(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)$", re.MULTILINE)
_ENOUGH = 400_000  # bytes, of two million

CALLS = """\
#include <stdlib.h>
#include <string.h>
static void *(*table[4])(const void *, int, size_t);
int main(int count, char **words)
{
    qsort(words, count, sizeof *words, (int (*)(const void *, const void *))strcmp);
    table[count & 3] = memchr;
    return rand() + abs(atoi(words[0])) + (table[0] ? table[0](words, 1, 1) != 0 : 0);
}
"""


def _listed(path: Path, *options: str) -> list[tuple[int, bytes, str]]:
    text = run("objdump", "-d", "--insn-width=16", "-M", "suffix", *options, path)
    return [
        (int(addr, 16), bytes.fromhex(data), words) for addr, data, words in _LINE.findall(text)
    ]


@pytest.mark.parametrize("bits", [64, 32])
def test_lengths_in_the_c_library(bits: int) -> None:
    need("objdump")
    path = Path(run("gcc", f"-m{bits}", "-print-file-name=libc.so.6").strip())
    start = next(s.vaddr for s in open_image(str(path)).segments if s.type == 1 and s.flags & 1)
    around = (f"--start-address={start}", f"--stop-address={start + _ENOUGH}")
    lines = _listed(path.resolve(), "-j", ".text", *around)[:-1]  # the last one may be cut off
    assert len(lines) > _ENOUGH // 6
    seen = dict.fromkeys((instruction.CALL, instruction.JUMP, instruction.BRANCH), 0)
    for addr, data, words in lines:
        found = instruction.decode(data + bytes(4), bits)
        assert found is not None, words
        assert found.size == len(data), words
        relative = re.search(r"# ([0-9a-f]+)", words)
        if found.relative:
            distance = int.from_bytes(data[found.relative : found.relative + 4], "little")
            place = addr + found.size + distance & 0xFFFF_FFFF
            assert relative is not None, words
            assert int(relative[1], 16) & 0xFFFF_FFFF == place, words
        else:
            assert relative is None, words
        goes = re.match(r"(?:bnd |notrack )*(callq?|jmpq?|j\w+|loop\w*)l? +([0-9a-f]+)\b", words)
        if goes is not None and found.kind != instruction.UNFIT:
            assert found.kind in seen, words
            assert addr + found.size + found.number & (1 << bits) - 1 == int(goes[2], 16), words
            seen[found.kind] += 1
        else:
            assert found.kind not in seen, words
        returns = re.match(r"(?:bnd |repz )*ret", words)
        assert (found.kind == instruction.RETURN) == (returns is not None), words
    assert min(seen.values()) > 100


def test_damaged_code_is_no_instruction() -> None:
    for code in (b"", b"\x66" * 15, b"\x0f", b"\xe8\0", b"\xc4", b"\x62\xf1", b"\xd6\0\0"):
        assert instruction.decode(code, 64) is None
        assert instruction.decode(code, 32) is None


@pytest.mark.parametrize("flags", [["-O1"], ["-O1", "-fno-plt"], ["-O1", "-no-pie", "-z", "now"]])
def test_what_goes_through_slots(flags: list[str], tmp_path: Path) -> None:
    path = built(tmp_path, "prog", CALLS, *flags)
    said = run("readelf", "-rW", path)
    row = re.compile(
        r"^([0-9a-f]+) +\w+ R_X86_64_(?:JUMP_SLO\w*|GLOB_DAT) +\w+ (\w+)", re.MULTILINE
    )
    slots = {int(place, 16): name for place, name in row.findall(said)}
    expected = set()
    for addr, data, words in _listed(path):
        match = re.match(r"(?:bnd )?(call|jmp)q? +\*0x[0-9a-f]+\(%rip\) +# ([0-9a-f]+)", words)
        if match is not None and int(match[2], 16) in slots:
            start = addr + len(data) - 6
            expected.add(Through(start, int(match[2], 16), match[1] == "call"))
    image = open_image(str(path))
    found = set()
    for segment in image.segments:
        if segment.type == 1 and segment.flags & 1:
            code = image.source.read(segment.offset, segment.filesz)
            found |= set(through(code, segment.vaddr, slots, 64))
    assert found == expected
    assert {"qsort", "rand"} <= {slots[each.slot] for each in found}

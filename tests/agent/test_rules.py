# SPDX-License-Identifier: Apache-2.0
"""unwindrules.c on libraries of the system, against soscope's reader of unwind tables in Python.

That one is compared with readelf in tests/unit/binfmt/elf/test_cfi.py.
"""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import AT_CFA, AT_EXPRESSION, FrameTable, Row
from tests.agent import hosted
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.time.patience import limit

FP, SP, RETURNS = 6, 7, 16  # columns
LAST, BY_SP, BY_FP, AT_FP, GUESS = 1, 2, 3, 4, 6  # enum sosc_frame_rule
THERE, LOST = 0xFE, 0xFF
PLT = bytes.fromhex("77 08 80 00 3f 1a 3b 2a 33 24 22")


def expected(row: Row | None, vaddr: int) -> tuple[int, int, int]:
    """Return kind, bytes and place of the frame pointer of a row, as unwindrules.h has them."""
    if row is None:
        return GUESS, 16, 2  # no table: a frame pointer
    cfa = _cfa(row, vaddr)
    if cfa is None or row.rules.get(RETURNS) != (AT_CFA, -8):
        return LAST, 0, 0
    return *cfa, _frame_pointer(row)


def _cfa(row: Row, vaddr: int) -> tuple[int, int] | None:
    shape = row.expression
    if shape is None:
        kind = {SP: BY_SP, FP: BY_FP}.get(row.register)
        return None if kind is None else (kind, row.offset)
    if len(shape) == len(PLT) and shape[:6] == PLT[:6] and shape[7:] == PLT[7:]:
        return BY_SP, 8 + 8 * ((vaddr & 15) >= shape[6] - 0x30)
    if len(shape) == 3 and shape[0] == 0x70 + FP and shape[2] == 0x06 and not shape[1] & 0x80:
        return AT_FP, (shape[1] & 0x3F) - (shape[1] & 0x40)  # one byte of a signed LEB128
    return None


def _frame_pointer(row: Row) -> int:
    kind, value = row.rules.get(FP, ("same", 0))
    if kind == AT_CFA and isinstance(value, int) and value < 0:
        return -value // 8
    if kind == AT_EXPRESSION and value == bytes([0x70 + FP, 0]):
        return THERE
    return 0 if kind == "same" else LOST


def places(image: ElfImage) -> list[int]:
    """Return link-time addresses: of each function that has a table some, chosen by chance."""
    segment = next(entry for entry in image.segments if entry.type == c.PT_GNU_EH_FRAME)
    data = image.source.read(image.locate(segment.vaddr), segment.filesz)
    count = struct.unpack_from("<I", data, 8)[0]
    starts = [segment.vaddr + struct.unpack_from("<i", data, 12 + 8 * at)[0] for at in range(count)]
    chance = random.Random(1)
    chosen = sorted(chance.sample(starts, min(len(starts), 2500)))
    return [start + add for start in chosen for add in (0, 1, 4, chance.randrange(5, 400))]


def aligned_library(folder: Path) -> str:
    """Return a library whose functions align their frames, with variable ones among them."""
    source = folder / "aligned.c"
    source.write_text(
        "void use(void *, void *);\n"
        + "".join(
            f"void f{at}(int n) {{ char a[{8 * at}] __attribute__((aligned({32 << at % 3})));"
            f" char b[{'n' if at % 2 else 8}]; use(a, b); use(b, a); }}\n"
            for at in range(1, 40)
        )
    )
    made_in(folder, "gcc", "-O2", "-mavx2", "-shared", "-fPIC", source, "-o", "aligned.so")
    return str(folder / "aligned.so")


@pytest.mark.every(3)
@pytest.mark.parametrize("library", ["libc.so.6", "libstdc++.so.6", "libcrypto.so.3", ""])
def test_rules_are_those_of_the_tables(library: str, tmp_path: Path) -> None:
    path = f"/lib/x86_64-linux-gnu/{library}" if library else aligned_library(tmp_path)
    if not os.path.exists(path):
        path = f"/usr{path}"
    descriptor = os.open(path, os.O_RDONLY)
    try:
        image = ElfImage.from_descriptor(descriptor, path)
        table = FrameTable(image)
        ranges = [
            range(entry.vaddr, entry.vaddr + entry.memsz)
            for entry in image.segments
            if entry.type == c.PT_LOAD and entry.flags & 1
        ]
        wanted = [vaddr for vaddr in places(image) if any(vaddr in here for here in ranges)]
        stdin = "".join(f"{vaddr:x}\n" for vaddr in wanted)
        program = hosted.program("rules")
        done = run([program, path], input=stdin, env=hosted.OPTIONS, timeout=limit(120))
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        said = [line.split() for line in done.stdout.splitlines()]
        assert [int(row[0], 16) for row in said] == wanted
        kinds = set()
        for vaddr, (_, *words) in zip(wanted, said, strict=True):
            kind, size, fp = map(int, words)
            row = table.row(vaddr)
            truth = expected(row, vaddr)
            if truth[0] == LAST:
                assert kind == LAST, hex(vaddr)
            else:
                assert (kind, size, fp) == truth, hex(vaddr)
            kinds.add(kind)
        assert {BY_SP, BY_FP} <= kinds
        assert library or AT_FP in kinds
    finally:
        os.close(descriptor)


def lying(data: bytes, field: int, value: int) -> bytes:
    """Return an ELF file whose PT_GNU_EH_FRAME has another number in a field, by its offset."""
    changed = bytearray(data)
    headers, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(headers, headers + 56 * count, 56):
        if struct.unpack_from("<I", data, at)[0] == c.PT_GNU_EH_FRAME:
            struct.pack_into("<Q", changed, at + field, value)
    return bytes(changed)


def damaged(data: bytes, image: ElfImage, chance: random.Random) -> bytes:
    """Return an ELF file some bytes of whose unwind tables are others."""
    changed = bytearray(data)
    header = next(each for each in image.segments if each.type == c.PT_GNU_EH_FRAME)
    segments = [each for each in image.segments if each.type == c.PT_LOAD]
    ends = [each.vaddr + each.filesz for each in segments if each.vaddr <= header.vaddr]
    for _ in range(chance.choice((1, 3, 30))):
        near = chance.choice((16, 400, max(ends) - header.vaddr))
        at = header.offset + chance.randrange(near)
        changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)


def test_tables_that_lie(tmp_path: Path) -> None:
    """A damaged library runs as long as nothing is thrown in it: nobody else reads its tables."""
    path = aligned_library(tmp_path)
    data = Path(path).read_bytes()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        image = ElfImage.from_descriptor(descriptor, path)
        stdin = "".join(f"{vaddr:x}\n" for vaddr in places(image)[:60])
        chance = random.Random(5)
        files = [damaged(data, image, chance) for _ in range(60)]
    finally:
        os.close(descriptor)
    most = (1 << 64) - 1
    files += [lying(data, 16, to) for to in (0x800, 0x100000, most - 100, most - 0xFFF)]
    files.append(lying(data, 40, most))
    program = hosted.program("rules")
    for number, content in enumerate(files):
        library = tmp_path / f"lies{number}.so"
        library.write_bytes(content)
        done = run([program, str(library)], input=stdin, env=hosted.OPTIONS, timeout=limit(120))
        assert done.returncode == 0, (number, (done.stdout + done.stderr)[-3000:])
        library.unlink()


def test_rules_of_an_image_that_goes() -> None:
    source = build.TARGETS / "hostile" / "lib_guessed_image.c"
    library = build.compiled("lib_guessed_image", ["gcc", "-shared", "-fPIC"], [source])
    hosted.check("forgotten", library)

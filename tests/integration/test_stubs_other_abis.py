# SPDX-License-Identifier: Apache-2.0
"""Files for the smaller ABIs of processors that have several: read, or said not to be."""

from __future__ import annotations

import struct
from pathlib import Path

from soscope.binfmt.elf import constants as c
from soscope.model import filemap as words
from soscope.model.arch import EM_RISCV
from tests.support.files.elfhostile import File, rela, symbol
from tests.support.files.stubs import compiled, linked, opened
from tests.support.targets.build import made_in

_CALL = ".globl call\ncall:\n bl puts\n bl atoi\n ret\n"


def test_aarch64_with_addresses_of_32_bits(tmp_path: Path) -> None:
    source, unit, path = (tmp_path / name for name in ("call.s", "call.o", "call.so"))
    source.write_text(_CALL)
    made_in(tmp_path, "aarch64-linux-gnu-as", "-mabi=ilp32", "-o", unit, source)
    linker = ("aarch64-linux-gnu-ld.bfd", "-m", "aarch64linux32")
    made_in(tmp_path, *linker, "-shared", "-o", path, unit)
    with opened(path) as mapped:
        assert (mapped.arch, mapped.bits, mapped.partial) == ("aarch64", 32, [])
        assert [(one.symbol, one.kind, one.binding) for one in mapped.slots] == [
            ("puts", "R_AARCH64_P32_JUMP_SLOT", words.LAZY),
            ("atoi", "R_AARCH64_P32_JUMP_SLOT", words.LAZY),
        ]
        assert [one.resolver_argument for one in mapped.slots] == [0, 12]
        plt = next(one for one in mapped.sections.all if one.name == ".plt")
        assert [[stub.vaddr for stub in one.stubs] for one in mapped.slots] == [
            [plt.vaddr + 32],
            [plt.vaddr + 48],
        ]
        assert {one.helper for one in mapped.slots} == {plt.vaddr}


def test_s390_with_31_bits_is_not_s390x() -> None:
    mapped = File({}, [], machine=22, bits=32, order=">").map()
    assert mapped.arch == "s390"
    assert mapped.slots == ()
    assert [one for one in mapped.partial if "decoder" in one]


def test_arm_with_its_code_big_end_first(tmp_path: Path) -> None:
    unit = compiled(
        tmp_path, "arm", "int puts(void); int f(void) { return puts(); }", "-mbig-endian"
    )
    for flags, is_read in (("--be8",), True), ((), False):
        emulation = ("-m", "armelfb_linux_eabi", "-shared", "-z", "lazy")
        path = linked(tmp_path, "arm", "bfd", [unit], *emulation, *flags)
        (e_flags,) = struct.unpack_from(">I", path.read_bytes(), 36)
        assert bool(e_flags & 0x800000) == is_read
        with opened(path) as mapped:
            (slot,) = mapped.slots
            assert len(slot.stubs) == is_read
            assert len(mapped.partial) == (not is_read)


def test_a_got_that_is_not_found_is_said() -> None:
    mapped = File(
        {"strings": b"\0foo\0", "symbols": symbol() + symbol(1), "words": rela(0x110, 2, 1)},
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, 5),
            (c.DT_SYMTAB, "symbols"),
            (c.DT_RELA, "words"),
            (c.DT_RELASZ, 24),
        ],
        machine=EM_RISCV,
    ).map()
    assert mapped.slots == ()
    assert [one for one in mapped.partial if "GOT" in one]

# SPDX-License-Identifier: Apache-2.0
"""Small files that are made to be dear: what they cost grows with their size, not faster."""

from __future__ import annotations

import struct

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.symboltable import SymbolTable, dynamic_table
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from soscope.model.arch import EM_PPC, EM_RISCV
from tests.support.files.elfhostile import File, Header, Segment, lines, peak, rela, symbol
from tests.support.time.patience import within_cpu

pytestmark = pytest.mark.slow

_MB = 1 << 20


def _named(count: int, length: int) -> File:
    """Make one long string that `count` symbols have for a name, each from another place on."""
    return File(
        {
            "strings": b"\0" + b"a" * length + b"\0",
            "symbols": symbol() + b"".join(symbol(1 + index) for index in range(count)),
            "slots": b"".join(rela(0x200000 + 8 * at, 6, 1 + at) for at in range(count)),
            "hash": struct.pack("<3I", 1, count + 1, 0),
        },
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, length + 2),
            (c.DT_SYMTAB, "symbols"),
            (c.DT_RELA, "slots"),
            (c.DT_RELASZ, 24 * count),
            (c.DT_HASH, "hash"),
        ],
    )


def test_names_in_one_long_string() -> None:
    made = _named(1000, 60_000)
    mapped = made.map()
    assert peak(lambda: mapped.slots) < 8 * _MB
    assert len(mapped.slots) == 1000
    assert mapped.slots[0].symbol == "a" * 60_000
    assert ["DT_STRTAB" in one for one in mapped.partial] == [True]
    again = made.map()
    assert peak(lambda: again.symbols) < 8 * _MB
    assert len(again.symbols) == 1000
    assert any("DT_STRTAB" in one for one in again.partial)


def test_names_that_share_their_ends_are_all_there() -> None:
    mapped = _named(100, 3000).map()
    assert [one.symbol for one in mapped.slots] == ["a" * (3000 - at) for at in range(100)]
    assert [one.name for one in mapped.symbols] == ["a" * (3000 - at) for at in range(100)]
    assert mapped.partial == []


def test_a_name_of_megabytes_is_damage() -> None:
    mapped = _named(1, 2 * _MB).map()
    assert [one.symbol for one in mapped.slots] == [""]
    assert [one for one in mapped.partial if "symbol 1" in one]


def test_the_same_names_asked_in_other_ways() -> None:
    data = _named(1000, 60_000).build()
    image = ElfImage.from_source(BufferSource(data))
    assert peak(lambda: SymbolTable(image).read_all()) < 8 * _MB
    with pytest.raises(FormatError, match="st_name"):
        list(image.symbols)
    table = dynamic_table(image)
    assert peak(lambda: list(table.names())) < 8 * _MB


def test_libraries_in_one_long_string() -> None:
    count, length = 300, 100_000
    strings = b"\0" + b"a" * length + b"\0"
    tags: list[tuple[int, int | str]] = [(c.DT_STRTAB, "strings"), (c.DT_STRSZ, len(strings))]
    tags += [(c.DT_NEEDED, 1 + index) for index in range(count)]
    mapped = File({"strings": strings}, tags).map()
    assert lines(lambda: mapped.needed) < 5000
    assert mapped.needed == ()
    assert [one for one in mapped.partial if "DT_NEEDED" in one]
    # short enough, each of them: but not all together
    tags = [tag for tag in tags if tag[0] != c.DT_NEEDED]
    tags += [(c.DT_NEEDED, length - 60_000 + index) for index in range(count)]
    mapped = File({"strings": strings}, tags).map()
    assert peak(lambda: mapped.needed) < 8 * _MB
    assert mapped.needed == ()
    assert [one for one in mapped.partial if "DT_NEEDED" in one]


def test_a_long_path_is_a_library_all_the_same() -> None:
    name = "/" + "a" * 4000 + ".so"
    strings = b"\0" + name.encode() + b"\0"
    mapped = File(
        {"strings": strings},
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, len(strings)),
            (c.DT_NEEDED, 1),
            (c.DT_SONAME, 1),
        ],
    ).map()
    assert (mapped.needed, mapped.soname, mapped.partial) == ((name,), name, [])


def _versions(needs: int, entries: int) -> File:
    """Make `needs` entries of DT_VERNEED that have one chain of `entries` in common."""
    outer = b"".join(
        struct.pack("<HHIII", 1, entries, 1, 16 * (needs - index), 16) for index in range(needs)
    )
    inner = b"".join(struct.pack("<IHHII", 0, 0, 2 + index, 1, 16) for index in range(entries))
    return File(
        {
            "strings": b"\0foo\0",
            "symbols": symbol() + symbol(1),
            "numbers": struct.pack("<2H", 0, 2),
            "slots": rela(0x200000, 6, 1),
            "versions": outer + inner + bytes(16),
        },
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, 5),
            (c.DT_SYMTAB, "symbols"),
            (c.DT_RELA, "slots"),
            (c.DT_RELASZ, 24),
            (c.DT_VERSYM, "numbers"),
            (c.DT_VERNEED, "versions"),
            (c.DT_VERNEEDNUM, needs),
        ],
    )


def test_versions_that_share_one_chain() -> None:
    mapped = _versions(1000, 1000).map()
    assert lines(lambda: mapped.slots) < 100_000
    assert [(one.symbol, one.version, one.library) for one in mapped.slots] == [
        ("foo", "foo", "foo")
    ]


# ---- code ----

_JUMP = b"\xff\x25\0\0\0\0\x66\x90"  # jmp *0(%rip); nop


def _calling(code: bytes) -> File:
    """Make a file that calls foo through one slot, at 0x1000000."""
    return File(
        {
            "code": code,
            "strings": b"\0foo\0",
            "symbols": symbol() + symbol(1),
            "slots": rela(0x1000000, 7, 1),
        },
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, 5),
            (c.DT_SYMTAB, "symbols"),
            (c.DT_JMPREL, "slots"),
            (c.DT_PLTRELSZ, 24),
            (c.DT_PLTREL, c.DT_RELA),
        ],
    )


def test_sections_over_the_same_code() -> None:
    code = _JUMP * 500
    made = _calling(code)
    at = made.at["code"]
    one = Header(".plt", 1, c.SHF_ALLOC | c.SHF_EXECINSTR, at, at, len(code))
    made.sections([one])
    alone = made.map()
    first = lines(lambda: alone.slots)
    found = alone.stubs_without_slot
    assert len(found) == 500
    made.sections([one] * 300)
    several = made.map()
    assert lines(lambda: several.slots) < 5 * first
    assert several.stubs_without_slot == found


def test_sections_over_the_same_code_at_many_addresses() -> None:
    """All of that cannot be read."""
    code = _JUMP * 50 + b"\x66\x90" * 1800  # lines of Python are counted for each jump
    made = _calling(code)
    at = made.at["code"]
    one = Header(".plt", 1, c.SHF_ALLOC | c.SHF_EXECINSTR, at, at, len(code))
    made.sections([one])
    alone = made.map()
    first = lines(lambda: alone.slots)
    found = alone.stubs_without_slot
    made.sections([one._replace(vaddr=at + 0x10000 * index) for index in range(2000)])
    shifted = made.map()
    assert peak(lambda: shifted.slots) < 32 * _MB
    assert lines(lambda: made.map().slots) < 500 * first
    assert set(shifted.stubs_without_slot) > set(found)
    assert [reason for reason in shifted.partial if "code" in reason]


def _on_powerpc(segments: int, filling: int) -> File:
    """Make a file for 32-bit PowerPC with one stub, and `segments` over all of it."""
    stub = b"\x81\x7e\0\0\x7d\x69\x03\xa6\x4e\x80\x04\x20"
    made = File(
        {
            "code": b"\x60\0\0\0" * filling + stub,
            "strings": b"\0foo\0",
            "symbols": bytes(16) + struct.pack(">IIIBBH", 1, 0, 0, 0x12, 0, 0),
            "slots": struct.pack(">IIi", 0x800000, 1 << 8 | 21, 0),
        },
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, 5),
            (c.DT_SYMTAB, "symbols"),
            (c.DT_JMPREL, "slots"),
            (c.DT_PLTRELSZ, 12),
            (c.DT_PLTREL, c.DT_RELA),
            (c.DT_PLTGOT, 0x800000),
            (0x70000000, 0x800000),
        ],
        machine=EM_PPC,
        bits=32,
        order=">",
        room=segments,
    )
    load = made.segments[0]
    made.segments += [load._replace(offset=16, vaddr=16, size=load.size - 16)] * segments
    return made


def test_segments_over_the_same_code() -> None:
    alone, several = _on_powerpc(0, 50_000).map(), _on_powerpc(500, 50_000).map()
    first = peak(lambda: alone.slots)
    assert peak(lambda: several.slots) < first + _MB
    assert [one.symbol for one in several.slots] == ["foo"]
    assert alone.slots == several.slots


def test_many_stubs_of_one_slot() -> None:
    count = 100_000
    made = _calling(_JUMP * count)
    at = made.at["code"]
    made.patch(
        "code",
        b"".join(
            b"\xff\x25" + struct.pack("<i", 0x1000000 - at - 8 * index - 6) + b"\x66\x90"
            for index in range(count)
        ),
    )
    made.sections([Header(".plt", 1, c.SHF_ALLOC | c.SHF_EXECINSTR, at, at, 8 * count)])
    mapped = made.map()
    with within_cpu(4):  # half a second; several times that, if each one copied the others
        stubs = mapped.slots[0].stubs
    assert [stub.vaddr for stub in stubs] == [at + 8 * index for index in range(count)]


def test_many_sections_and_many_words() -> None:
    def mapped(sections: int, words: int) -> ElfMap:
        made = File(
            {
                "strings": b"\0foo\0",
                "symbols": symbol() + symbol(1),
                "words": b"".join(rela(0x1000000 + 8 * at, 2, 1) for at in range(words)),
            },
            [
                (c.DT_STRTAB, "strings"),
                (c.DT_STRSZ, 5),
                (c.DT_SYMTAB, "symbols"),
                (c.DT_RELA, "words"),
                (c.DT_RELASZ, 24 * words),
            ],
            machine=EM_RISCV,
        )
        made.sections([Header(".data", 1, 3, 0x900000, 0, 16)] * sections)
        return made.map()

    few, many = mapped(10, 10), mapped(1000, 1000)
    assert lines(lambda: few.slots) < 10_000
    assert lines(lambda: many.slots) < 120_000


def _words(count: int) -> ElfMap:
    """Make a RISC-V file in which every other word may be the beginning of the GOT."""
    zero = 0x100000  # the dynamic section is at 0, all else from here on
    made = File(
        {"words": bytes(16 * count), "slots": bytes(24 * count), "strings": b"\0foo\0"}
        | {"symbols": symbol() + symbol(1)},
        [
            (c.DT_STRTAB, 0),
            (c.DT_STRSZ, 5),
            (c.DT_SYMTAB, 0),
            (c.DT_RELA, 0),
            (c.DT_RELASZ, 24 * count),
        ],
        machine=EM_RISCV,
        room=1,
    )
    at = made.at
    tags = ((c.DT_STRTAB, "strings"), (c.DT_STRSZ, 5), (c.DT_SYMTAB, "symbols"))
    more = ((c.DT_RELA, "slots"), (c.DT_RELASZ, 24 * count))
    rows = [(tag, zero + at[one] if isinstance(one, str) else one) for tag, one in tags + more]
    made.patch("dynamic", b"".join(struct.pack("<QQ", *row) for row in rows))
    first = zero + at["words"] + 8
    made.patch("slots", b"".join(rela(first + 16 * index, 2, 1, 1) for index in range(count)))
    load, dynamic = made.segments
    made.segments = [
        load._replace(offset=dynamic.offset, size=dynamic.size),
        load._replace(offset=at["words"], vaddr=zero + at["words"], size=load.size - at["words"]),
        dynamic._replace(vaddr=0),
    ]
    return made.map()


def test_many_beginnings_of_a_got() -> None:
    few, many = _words(100), _words(2000)
    first = lines(lambda: few.slots)
    assert lines(lambda: many.slots) < 40 * first  # 400 times, if each one were followed
    assert len(many.slots) == 2000


# ---- what is said, and what is read where slots lie apart ----


def test_slots_in_several_segments_have_their_own_helpers() -> None:
    places = (0x10000, 0x20000, 0x8000000)
    made = File(
        {
            "code": bytes(64),
            "last": struct.pack("<Q", 0),
            "between": bytes(8),
            "first": struct.pack("<Q", 0),
            "second": struct.pack("<Q", 0),
            "strings": b"\0foo\0",
            "symbols": symbol() + symbol(1),
            "slots": b"".join(rela(vaddr, 7, 1) for vaddr in places),
        },
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, 5),
            (c.DT_SYMTAB, "symbols"),
            (c.DT_JMPREL, "slots"),
            (c.DT_PLTRELSZ, 72),
            (c.DT_PLTREL, c.DT_RELA),
        ],
        room=3,
    )
    code = made.at["code"]
    for index, (name, vaddr) in enumerate(zip(("first", "second", "last"), places, strict=True)):
        made.patch(name, struct.pack("<Q", code + 16 * index))
        made.segments.append(Segment(c.PT_LOAD, 6, made.at[name], vaddr, 8))
    mapped = made.map()
    assert [(one.vaddr, one.helper) for one in mapped.slots] == [
        (vaddr, code + 16 * index) for index, vaddr in enumerate(places)
    ]
    assert mapped.partial == []


def test_that_there_are_more_reasons_is_said() -> None:
    count = 50
    mapped = File(
        {
            "strings": b"\0foo\0",
            "symbols": symbol() + b"".join(symbol(100 + index) for index in range(count)),
            "slots": b"".join(rela(0x1000000 + 8 * at, 6, 1 + at) for at in range(count)),
        },
        [
            (c.DT_STRTAB, "strings"),
            (c.DT_STRSZ, 5),
            (c.DT_SYMTAB, "symbols"),
            (c.DT_RELA, "slots"),
            (c.DT_RELASZ, 24 * count),
        ],
    ).map()
    assert len(mapped.slots) == count
    assert len(mapped.partial) < count
    assert len([one for one in mapped.partial if "st_name" in one]) == len(mapped.partial) - 1
    assert mapped.partial[-1] == "and more"

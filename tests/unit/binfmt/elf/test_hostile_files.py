# SPDX-License-Identifier: Apache-2.0
"""Small files that are made to be dear: what they cost grows with their size, not faster."""

from __future__ import annotations

import struct

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.exports import Exports
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.symbolarray import dynamic_table
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from tests.support.elfhostile import File, lines, peak, rela, symbol

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
    assert any("DT_STRTAB" in one for one in mapped.partial)
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
    assert peak(lambda: Exports(image)) < 8 * _MB
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
    tags = [(c.DT_STRTAB, "strings"), (c.DT_STRSZ, len(strings)), (c.DT_NEEDED, 1)]
    mapped = File({"strings": strings}, [*tags, (c.DT_SONAME, 1)]).map()
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

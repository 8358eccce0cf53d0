# SPDX-License-Identifier: Apache-2.0
"""Sound images agree with themselves; each fault is found and named."""

from __future__ import annotations

from struct import pack

from soscope.binfmt.macho import filemap as a
from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.filemap import MachoMap
from soscope.model.filemap import UNBOUND
from tests.support.macho.machosmall import CODE, DATA, LINKEDIT, Small, opened
from tests.unit.binfmt.macho.test_damaged import chained_image
from tests.unit.binfmt.macho.test_filemap import HELPERS, bound, fixups, lazy_image

SECOND = len(bound("_puts", 0x1000))  # where the second lazy record begins


def told(image: MachoMap) -> list[a.Disagreement]:
    return a.disagreements(image)


def with_records(lazy: bytes) -> Small:
    image = lazy_image()
    image.commands.pop()
    image.dyld_info(lazy=lazy)
    return image


def test_a_sound_image_agrees() -> None:
    assert told(lazy_image().open()) == []


def test_a_helper_that_names_another_record_is_found() -> None:
    data = lazy_image().built()
    at = data.index(b"\x68" + pack("<I", SECOND))
    (one,) = told(opened(data[: at + 1] + bytes(4) + data[at + 5 :]))
    assert (one.what, one.stub, one.slot) == (a.LAZY_OFFSET, CODE + 6, DATA + 8)
    assert (one.helper, one.offset, one.expected) == (HELPERS + 26, 0, SECOND)
    assert (one.bound, one.offset_names) == (("_free",), "_puts")


def test_a_helper_that_names_no_record_is_found() -> None:
    data = lazy_image().built().replace(b"\x68" + pack("<I", SECOND), b"\x68" + pack("<I", 999))
    (one,) = told(opened(data))
    assert (one.what, one.offset, one.offset_names) == (a.LAZY_OFFSET, 999, "")


def test_a_slot_that_leads_to_no_helper_is_found() -> None:
    data = lazy_image().built().replace(pack("<Q", HELPERS + 26), pack("<Q", HELPERS + 27))
    (one,) = told(opened(data))
    assert (one.what, one.slot, one.helper) == (a.NO_HELPER, DATA + 8, HELPERS + 27)


def test_a_stub_of_another_name_than_its_slot_is_found() -> None:
    image = lazy_image()
    image.indirect[0], image.indirect[1] = image.indirect[1], image.indirect[0]
    found = told(image.open())
    assert [(one.what, one.stub, one.by_stub, one.by_slot) for one in found] == [
        (a.STUB_NAME, CODE, "_free", "_puts"),
        (a.STUB_NAME, CODE + 6, "_puts", "_free"),
    ]


def test_a_slot_that_is_bound_to_another_name_is_found() -> None:
    image = lazy_image()
    image.indirect[3] = image.indirect[0] = image.indirect[2]
    image.indirect[1] = image.symbol("_free")
    found = told(image.open())
    assert [(one.what, one.by_slot, one.bound) for one in found] == [
        (a.SLOT_NAME, "_puts", ("_free",))
    ]


def test_a_slot_that_is_bound_twice_is_found() -> None:
    records = bound("_puts", 0x1000) + bound("_free", 0x1008) + bound("_puts", 0x1008)
    found = told(with_records(records).open())
    assert [(one.what, one.slot, one.bound) for one in found] == [
        (a.STUB_NAME, DATA + 8, ("_free", "_puts")),
        (a.TWO_NAMES, DATA + 8, ("_free", "_puts")),
        (a.LAZY_OFFSET, DATA + 8, ("_puts",)),
    ]


def test_a_record_of_no_slot_is_found() -> None:
    records = bound("_puts", 0x1000) + bound("_free", 0x1008) + bound("_x", 0x1100)
    (one,) = told(with_records(records).open())
    assert (one.what, one.slot, one.bound) == (a.RECORD_ELSEWHERE, DATA + 0x100, ("_x",))


def test_stubs_that_lead_nowhere_are_found() -> None:
    data = lazy_image().built()
    astray = data.replace(b"\xff\x25" + pack("<i", DATA + 8 - CODE - 12), b"\xff\x25" + bytes(4))
    (one,) = told(opened(astray))
    assert (one.what, one.stub, one.slot) == (a.NO_SLOT, CODE + 6, CODE + 12)
    broken = data.replace(b"\xff\x25" + pack("<i", DATA + 8 - CODE - 12), b"\xcc" * 6)
    (one,) = told(opened(broken))
    assert (one.what, one.stub, one.by_stub) == (a.NO_CODE, CODE + 6, "_free")
    assert opened(broken).stubs_without_slot[0].vaddr == CODE + 6


def test_slots_that_no_record_binds_are_found() -> None:
    image = with_records(bound("_puts", 0x1000))
    _, free = image.open().slots
    assert (free.symbol, free.binding, free.library, free.helper) == ("_free", UNBOUND, "", None)
    (one,) = told(image.open())
    assert (one.what, one.slot, one.by_slot) == (a.NO_RECORD, DATA + 8, "_free")
    chained = chained_image()
    chained.tables[-1] = (LINKEDIT, fixups(6, [0xFFFF, 0xFFFF], [(1, 0, "_a"), (1, 0, "_b")]))
    found = told(chained.open())
    assert [(one.what, one.by_slot) for one in found] == [
        (a.NO_RECORD, name) for name in ("_a", "_b", "_a")
    ]
    chained.flags |= c.MH_DYLIB_IN_CACHE
    assert told(chained.open()) == []

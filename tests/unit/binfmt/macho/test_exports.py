# SPDX-License-Identifier: Apache-2.0
"""The export trie, as <mach-o/loader.h> describes it, and images that have nothing else."""

from __future__ import annotations

from struct import pack

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.fixups import Export, exports
from soscope.model import arch as machines
from tests.support.macho.machosmall import BASE, LIBRARY, LINKEDIT, Small


def trie() -> bytes:
    """_a at 0x800, _b which is library 1's _c, _bc weak at 0x80."""
    a = bytes((3, 0, 0x80, 0x10, 0))  # 3 bytes: flags, address 0x800; no children
    c_node = bytes((3, 4, 0x80, 0x01, 0))
    b = bytes((5, 8, 1)) + b"_c\0" + b"\x01c\0"
    root = b"\x00\x01_\0\x05"
    middle_size = 2 + 3 + 3
    at_a = len(root) + middle_size
    at_b = at_a + len(a)
    at_c = at_b + len(b) + 1
    middle = bytes((0, 2)) + b"a\0" + bytes((at_a,)) + b"b\0" + bytes((at_b,))
    return root + middle + a + b + bytes((at_c,)) + c_node


def image(data: bytes) -> Small:
    small = Small(machines.CPU_ARM64)
    small.command(c.LC_DYLD_EXPORTS_TRIE, pack("<2I", *small.table(LINKEDIT, data)))
    return small


def test_the_trie_is_walked() -> None:
    assert list(exports(image(trie()).open().image)) == [
        Export("_a", BASE + 0x800, "regular", weak=False, ordinal=None),
        Export("_b", 0, "regular", weak=False, ordinal=1),
        Export("_bc", BASE + 0x80, "regular", weak=True, ordinal=None),
    ]


def test_an_image_without_symbol_table_has_its_exports() -> None:
    found = {one.name: one for one in image(trie()).open().symbols}
    assert (found["_a"].vaddr, found["_a"].defined_here) == (BASE + 0x800, True)
    assert (found["_b"].library, found["_b"].defined_here) == (LIBRARY, False)
    assert found["_bc"].binding == "weak"


def test_a_trie_that_leads_back_ends() -> None:
    opened = image(b"\x00\x02a\0\x00b\0\x00").open()
    assert list(exports(opened.image)) == []
    assert any("way back" in reason for reason in opened.partial)

# SPDX-License-Identifier: Apache-2.0
"""Write small ELF images: what a decoder is tested with is made, not committed.

One PT_LOAD holds everything, from the ELF header on, at link-time address `vaddr`. There are
no section headers.
"""

from __future__ import annotations

import struct

from soscope.binfmt.elf import constants as c
from soscope.model import arch as machines


def gnu_hash(name: bytes) -> int:
    """Hash a name as `_dl_new_hash` of glibc does: not by the code under test."""
    h = 5381
    for byte in name:
        h = ((h << 5) + h + byte) % (1 << 32)
    return h


def sysv_hash(name: bytes) -> int:
    """Hash a name as the gABI's `elf_hash` does."""
    h = 0
    for byte in name:
        h = ((h << 4) + byte) % (1 << 32)
        g = h & 0xF0000000
        if g:
            h ^= g >> 24
        h &= ~g
    return h


class Sym:
    """A symbol to be written; `section` 0 is undefined. `version` numbers as in DT_VERSYM."""

    def __init__(
        self,
        name: str,
        value: int = 0,
        *,
        kind: int = c.STT_FUNC,
        section: int = 1,
        version: int = 1,
        jump_slot: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.kind = kind
        self.section = section
        self.version = version
        self.jump_slot = jump_slot


class Writer:
    """Collects the parts of an image; `build` returns its bytes. `at` says where parts lie."""

    def __init__(self, bits: int = 64, order: str = "<", vaddr: int = 0) -> None:
        self.bits = bits
        self.order = order
        self.vaddr = vaddr
        self.machine = machines.EM_X86_64
        self.at: dict[str, int] = {}
        self.tags: list[tuple[int, int]] = []
        self._strings = bytearray(b"\0")
        self._data = bytearray()
        self._phnum = 4
        self._start = 64 + 56 * self._phnum

    def pack(self, codes: str, *values: int) -> bytes:
        """Pack integers; `P` is an address-sized one."""
        return struct.pack(
            self.order + codes.replace("P", "Q" if self.bits == 64 else "I"), *values
        )

    def string(self, text: str) -> int:
        """Add a string to DT_STRTAB; return its offset."""
        at = len(self._strings)
        self._strings += text.encode() + b"\0"
        return at

    def part(self, name: str, data: bytes, tag: int | None = None) -> int:
        """Add a part; return its link-time address."""
        self._data += bytes(-len(self._data) % 8)
        self.at[name] = self._start + len(self._data)
        self._data += data
        addr = self.vaddr + self.at[name]
        if tag is not None:
            self.tags.append((tag, addr))
        return addr

    def symbols(self, symbols: list[Sym], *, gnu: bool = True, sysv: bool = False) -> None:
        """Write symbols, their versions, hash tables and jump slots."""
        local = [one for one in symbols if not one.section]
        exported = [one for one in symbols if one.section]
        buckets = max(1, len(exported) // 2)
        exported.sort(key=lambda one: gnu_hash(one.name.encode()) % buckets)
        ordered = [Sym("", kind=0, section=0, version=0), *local, *exported]
        table = b"".join(self._symbol(one) for one in ordered)
        self.part("symbols", table, c.DT_SYMTAB)
        self.part(
            "versym", self.pack(f"{len(ordered)}H", *(o.version for o in ordered)), c.DT_VERSYM
        )
        if gnu:
            self._gnu_hash(exported, buckets, 1 + len(local))
        if sysv:
            self._sysv_hash(ordered)
        slots = b""
        for index, one in enumerate(ordered):
            if one.jump_slot:
                info = index << 32 | 7 if self.bits == 64 else index << 8 | 7
                slots += self.pack("PPP", 0x5000 + 8 * index, info, 0)
        self.tags += [(c.DT_PLTREL, c.DT_RELA), (c.DT_PLTRELSZ, len(slots))]
        self.part("jmprel", slots, c.DT_JMPREL)

    def _symbol(self, one: Sym) -> bytes:
        name = self.string(one.name) if one.name else 0
        info = c.STB_GLOBAL << 4 | one.kind
        if self.bits == 64:
            return self.pack("IBBHQQ", name, info, 0, one.section, one.value, 16)
        return self.pack("IIIBBH", name, one.value, 16, info, 0, one.section)

    def _gnu_hash(self, exported: list[Sym], buckets: int, first: int) -> None:
        hashes = [gnu_hash(one.name.encode()) for one in exported]
        heads = [0] * buckets
        for index, value in reversed(list(enumerate(hashes))):
            heads[value % buckets] = first + index
        chain = []
        for index, value in enumerate(hashes):
            is_last = index + 1 == len(hashes) or hashes[index + 1] % buckets != value % buckets
            chain.append(value & ~1 | is_last)
        data = self.pack("IIIIP", buckets, first, 1, 6, 2**self.bits - 1)
        data += self.pack(f"{buckets}I{len(chain)}I", *heads, *chain)
        self.part("gnu_hash", data, c.DT_GNU_HASH)

    def _sysv_hash(self, ordered: list[Sym]) -> None:
        heads, chain = [0, 0, 0], [0] * len(ordered)
        for index, one in enumerate(ordered[1:], 1):
            slot = sysv_hash(one.name.encode()) % 3
            chain[index], heads[slot] = heads[slot], index
        data = self.pack(f"II3I{len(chain)}I", 3, len(chain), *heads, *chain)
        self.part("sysv_hash", data, c.DT_HASH)

    def versions(self, needed: dict[int, str], defined: dict[int, str]) -> None:
        """Write DT_VERNEED (one file) and DT_VERDEF: version number -> name."""
        aux = b""
        for place, (number, name) in enumerate(needed.items()):
            following = 16 if place + 1 < len(needed) else 0
            aux += self.pack("IHHII", 0, 0, number, self.string(name), following)
        head = self.pack("HHIII", 1, len(needed), self.string("libneeded.so"), 16, 0)
        self.part("verneed", head + aux, c.DT_VERNEED)
        self.tags.append((c.DT_VERNEEDNUM, 1))
        data = b""
        for place, (number, name) in enumerate(defined.items()):
            following = 28 if place + 1 < len(defined) else 0
            data += self.pack("HHHHIII", 1, 0, number, 1, 0, 20, following)
            data += self.pack("II", self.string(name), 0)
        self.part("verdef", data, c.DT_VERDEF)
        self.tags.append((c.DT_VERDEFNUM, len(defined)))

    def build(self, *, build_id: bytes = b"", interpreter: str = "") -> bytes:
        """Return the image."""
        note = self.pack("III", 4, len(build_id), c.NT_GNU_BUILD_ID) + b"GNU\0" + build_id
        other = self.pack("III", 6, 3, 99) + b"Other\0\0\0" + b"xyz\0"
        notes = other + note if build_id else other
        self.part("notes", notes)
        self.part("interpreter", interpreter.encode() + b"\0" if interpreter else b"")
        self.part("strings", bytes(self._strings), c.DT_STRTAB)
        self.tags.append((c.DT_STRSZ, len(self._strings)))
        dynamic = b"".join(self.pack("PP", *tag) for tag in [*self.tags, (c.DT_NULL, 0)])
        self.part("dynamic", dynamic)
        whole = self._start + len(self._data)
        segments = [
            (c.PT_LOAD, 0, whole),
            (c.PT_DYNAMIC, self.at["dynamic"], len(dynamic)),
            (c.PT_NOTE, self.at["notes"], len(notes)),
            (c.PT_INTERP if interpreter else 0, self.at["interpreter"], len(interpreter) + 1),
        ]
        table = b"".join(self._segment(*segment) for segment in segments)
        ident = b"\x7fELF" + bytes((2 if self.bits == 64 else 1, 1 if self.order == "<" else 2, 1))
        sizes = (64, 56) if self.bits == 64 else (52, 32)
        header = ident.ljust(16, b"\0") + self.pack(
            "HHIPPPIHHHHHH",
            *(c.ET_DYN, self.machine, 1, 0, sizes[0], 0, 0),
            *(sizes[0], sizes[1], self._phnum, 0, 0, 0),
        )
        return (header + table).ljust(self._start, b"\0") + bytes(self._data)

    def _segment(self, kind: int, offset: int, size: int) -> bytes:
        addr = self.vaddr + offset
        flags = 4 | c.PF_X  # PF_R
        if self.bits == 64:
            return self.pack("IIQQQQQQ", kind, flags, offset, addr, addr, size, size, 4)
        return self.pack("IIIIIIII", kind, offset, addr, addr, size, size, flags, 4)


def sample(bits: int = 64, order: str = "<", vaddr: int = 0, *, gnu: bool = True) -> Writer:
    """Return a writer with some of everything; `build` is left to the caller."""
    writer = Writer(bits, order, vaddr)
    writer.tags += [
        (c.DT_SONAME, writer.string("libsample.so.1")),
        (c.DT_NEEDED, writer.string("liba.so")),
        (c.DT_NEEDED, writer.string("libb.so")),
    ]
    writer.symbols(
        [
            Sym("imported", section=0, version=2, jump_slot=True),
            Sym("untyped", kind=c.STT_NOTYPE, section=0, jump_slot=True),
            Sym("data", kind=c.STT_OBJECT, section=0),
            Sym("loaded", section=0),
            Sym("exported", 0x1000, version=4),
            Sym("old", 0x1100, version=3 | c.VERSYM_HIDDEN),
            Sym("old", 0x1200, version=4),
            Sym("plain", 0x1300),
            *(Sym(f"more{index}", 0x2000 + index) for index in range(20)),
        ],
        gnu=gnu,
        sysv=not gnu,
    )
    writer.versions({2: "NEED_1"}, {3: "DEF_1", 4: "DEF_2"})
    return writer

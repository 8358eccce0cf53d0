# SPDX-License-Identifier: Apache-2.0
"""Two files whose calls of malloc lie where an old article has them: docs/explain.md's example.

"Dynamic Linking: ELF vs. Mach-O" (Joe Damato, 2009) shows malloc's stub, slot and helper of an
ELF and of a Mach-O Ruby. Here they are as files, with those addresses and nothing else.
"""

from __future__ import annotations

import struct

# ---- ELF: PLT0, malloc's entry and its slot are the article's ----

PLT0 = 0x40F0D0
STUB = 0x40F3D0
SLOT = 0x6D85D0
INDEX = 0x2F
_GOT = SLOT - 8 * (3 + INDEX)
_TEXT = 0x410000
_BASE = 0x400000
_DATA, _DATA_OFFSET = 0x6D8000, 0x18000
# push %rbx; mov %rdi,%rbx; … ; a call at +52
_FUNCTION = bytes.fromhex("53 48 89 fb") + b"\x90" * 43 + bytes.fromhex("bf 28 00 00 00")


def _call(at: int, target: int) -> bytes:
    return b"\xe8" + struct.pack("<i", target - at - 5)


def elf() -> bytes:
    """Return an ELF program that calls malloc, entry 0x2f of its PLT."""
    names = [f"function{one}" for one in range(INDEX)] + ["malloc"]
    strings = b"\0" + b"".join(one.encode() + b"\0" for one in (*names, "libc.so.6", "GLIBC_2.2.5"))

    def at(text: str) -> int:
        return strings.index(b"\0" + text.encode() + b"\0") + 1

    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", at(one), 0x12, 0, 0, 0, 0) for one in names
    )
    numbers = struct.pack("<H", 0) + struct.pack("<H", 2) * len(names)
    needs = struct.pack("<HHIII", 1, 1, at("libc.so.6"), 16, 0)
    needs += struct.pack("<IHHII", 0x09691A75, 0, 2, at("GLIBC_2.2.5"), 0)
    jumps = b"".join(
        struct.pack("<QQq", _GOT + 8 * (3 + one), (one + 1) << 32 | 7, 0)
        for one in range(INDEX + 1)
    )
    plt = b"\xff\x35" + struct.pack("<i", _GOT + 8 - PLT0 - 6)
    plt += b"\xff\x25" + struct.pack("<i", _GOT + 16 - PLT0 - 12) + bytes.fromhex("0f1f4000")
    got = struct.pack("<QQQ", _DATA, 0, 0)
    for one in range(INDEX + 1):
        entry, slot = PLT0 + 16 * (one + 1), _GOT + 8 * (3 + one)
        plt += b"\xff\x25" + struct.pack("<i", slot - entry - 6) + b"\x68" + struct.pack("<I", one)
        plt += b"\xe9" + struct.pack("<i", PLT0 - entry - 16)
        got += struct.pack("<Q", entry + 6)
    text = _FUNCTION + _call(_TEXT + 52, STUB) + b"\x5b\xc3"
    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    tables = {
        ".interp": (1, 0x400300, loader, 0, 0),
        ".dynsym": (11, 0x400400, symbols, 24, 1),
        ".dynstr": (3, 0x400A00, strings, 0, 0),
        ".gnu.version": (0x6FFFFFFF, 0x400E00, numbers, 2, 0),
        ".gnu.version_r": (0x6FFFFFFE, 0x400F00, needs, 0, 1),
        ".rela.plt": (4, 0x401000, jumps, 24, 0),
        ".plt": (1, PLT0, plt, 16, 0),
        ".text": (1, _TEXT, text, 0, 0),
        ".got.plt": (1, _GOT, got, 8, 0),
    }
    tags = {
        1: at("libc.so.6"),
        5: 0x400A00,
        6: 0x400400,
        10: len(strings),
        11: 24,
        3: _GOT,
        2: len(jumps),
        20: 7,
        23: 0x401000,
        0x6FFFFFF0: 0x400E00,
        0x6FFFFFFE: 0x400F00,
        0x6FFFFFFF: 1,
        4: 0x401800,
        0: 0,
    }
    tables[".hash"] = (5, 0x401800, struct.pack("<3I", 1, len(names) + 1, 0) + bytes(4 * 49), 4, 0)
    tables[".dynamic"] = (
        6,
        _DATA,
        b"".join(struct.pack("<QQ", *one) for one in tags.items()),
        16,
        0,
    )
    return _elf_file(tables, len(loader))


def _elf_file(tables: dict[str, tuple[int, int, bytes, int, int]], loader: int) -> bytes:
    def place(vaddr: int) -> int:
        return vaddr - _DATA + _DATA_OFFSET if vaddr >= _DATA else vaddr - _BASE

    static = b"\0str_new\0"
    data = bytearray(_DATA_OFFSET + 0x1000)
    names = b"\0" + b"".join(
        one.encode() + b"\0" for one in (*tables, ".symtab", ".strtab", ".shstrtab")
    )
    text_index = 1 + list(tables).index(".text")
    rows = [bytes(64)]
    order = {name: index for index, name in enumerate(tables, 1)}
    links = {".dynsym": ".dynstr", ".gnu.version": ".dynsym", ".rela.plt": ".dynsym"}
    links |= {".gnu.version_r": ".dynstr", ".dynamic": ".dynstr", ".hash": ".dynsym"}
    for name, (kind, vaddr, content, entry, info) in tables.items():
        at = place(vaddr)
        data[at : at + len(content)] = content
        flags = 6 if name in (".plt", ".text") else 3 if vaddr >= _DATA else 2
        link = order.get(links.get(name, ""), 0)
        row = (names.index(name.encode()), kind, flags, vaddr, at, len(content))
        rows.append(struct.pack("<IIQQQQIIQQ", *row, link, info, 8, entry))
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, text_index, _TEXT, 59)
    for name, kind, content, entry in (
        (".symtab", 2, symbols, 24),
        (".strtab", 3, static, 0),
        (".shstrtab", 3, names, 0),
    ):
        row = (names.index(name.encode()), kind, 0, 0, len(data), len(content))
        link, info = (len(rows) + 1, 1) if kind == 2 else (0, 0)
        rows.append(struct.pack("<IIQQQQIIQQ", *row, link, info, 1, entry))
        data += content
    start = len(data)
    data += b"".join(rows)
    segments = (
        (3, 4, 0x300, 0x400300, loader),
        (1, 5, 0, _BASE, 0x11000),
        (1, 6, _DATA_OFFSET, _DATA, 0x1000),
        (2, 6, _DATA_OFFSET, _DATA, 16 * 14),
    )
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = (2, 62, 1, _TEXT, 64, start, 0, 64, 56, len(segments), 64, len(rows), len(rows) - 1)
    header = ident + struct.pack("<HHIQQQIHHHHHH", *head)
    for kind, flags, offset, vaddr, size in segments:
        header += struct.pack("<IIQQQQQQ", kind, flags, offset, vaddr, vaddr, size, size, 0x1000)
    data[: len(header)] = header
    return bytes(data)


# ---- Mach-O: the call, the stub, its slot and its helper are the article's ----

MACHO_CALL = 0x10008C504
MACHO_STUB = 0x10009EBBC
MACHO_SLOT = 0x1000D9A08
MACHO_HELPERS = 0x10009ED8A
MACHO_HELPER = 0x1000A08D4
LAZY_OFFSET = 0x3B73
_MACHO_BASE = 0x100000000
_MACHO_DATA = 0x1000D9000
_BINDER, _PRIVATE = _MACHO_DATA, _MACHO_DATA + 8
_LINK = 0x1000DA000


def macho() -> bytes:
    """Return a Mach-O program that calls malloc, as the linkers of Mac OS X 10.6 made them."""
    names = b"\0_str_new\0_malloc\0dyld_stub_binder\0"

    def symbol(name: bytes, kind: int, section: int, about: int, value: int) -> bytes:
        return struct.pack("<IBBHQ", names.index(name), kind, section, about, value)

    symbols = symbol(b"_str_new", 0x0F, 1, 0, MACHO_CALL - 52)
    symbols += symbol(b"_malloc", 1, 0, 0x100, 0) + symbol(b"dyld_stub_binder", 1, 0, 0x100, 0)
    eager = b"\x11\x40dyld_stub_binder\0\x51\x71\x00\x90\x00"
    lazy = (
        bytes(LAZY_OFFSET) + b"\x71" + _uleb(MACHO_SLOT - _MACHO_DATA) + b"\x11\x40_malloc\0\x90\0"
    )
    link = eager.ljust(64, b"\0") + lazy
    places = {"eager": 0, "lazy": 64, "symbols": (len(link) + 15) & ~15}
    link = link.ljust(places["symbols"], b"\0") + symbols
    places["indirect"] = len(link)
    link += struct.pack("<3I", 1, 1, 2)
    places["names"] = len(link)
    link += names

    data = bytearray(_LINK - _MACHO_BASE + len(link))

    def put(vaddr: int, content: bytes) -> None:
        data[vaddr - _MACHO_BASE : vaddr - _MACHO_BASE + len(content)] = content

    put(MACHO_CALL - 52, _FUNCTION + _call(MACHO_CALL, MACHO_STUB) + b"\x5b\xc3")
    put(MACHO_STUB, b"\xff\x25" + struct.pack("<i", MACHO_SLOT - MACHO_STUB - 6))
    head = b"\x4c\x8d\x1d" + struct.pack("<i", _PRIVATE - MACHO_HELPERS - 7) + b"\x41\x53\xff\x25"
    put(MACHO_HELPERS, head + struct.pack("<i", _BINDER - MACHO_HELPERS - 15) + b"\x90")
    helper = b"\x68" + struct.pack("<I", LAZY_OFFSET) + b"\xe9"
    put(MACHO_HELPER, helper + struct.pack("<i", MACHO_HELPERS - MACHO_HELPER - 10))
    put(MACHO_SLOT, struct.pack("<Q", MACHO_HELPER))
    put(_LINK, link)
    put(_MACHO_BASE, _macho_header(places, len(lazy), len(link), len(names)))
    return bytes(data)


def _macho_header(places: dict[str, int], lazy: int, link: int, names: int) -> bytes:
    def section(name: str, segment: str, vaddr: int, size: int, flags: int, *more: int) -> bytes:
        row = (vaddr, size, vaddr - _MACHO_BASE, 0, 0, 0, flags, *(more or (0, 0)), 0)
        return struct.pack("<16s16sQQIIIIIIII", name.encode(), segment.encode(), *row)

    def segment(name: str, vaddr: int, size: int, protection: int, *sections: bytes) -> bytes:
        row = (vaddr, (size + 0xFFF) & ~0xFFF, vaddr - _MACHO_BASE, size, protection, protection)
        body = struct.pack("<16sQQQQIIII", name.encode(), *row, len(sections), 0)
        return _command(0x19, body + b"".join(sections))

    start = _LINK - _MACHO_BASE
    code = 0x80000400
    text = (
        section("__text", "__TEXT", MACHO_CALL - 52, 59, code),
        section("__stubs", "__TEXT", MACHO_STUB, 6, code | 8, 0, 6),
        section("__stub_helper", "__TEXT", MACHO_HELPERS, MACHO_HELPER + 10 - MACHO_HELPERS, code),
    )
    data = (
        section("__got", "__DATA", _BINDER, 8, 6, 2, 0),
        section("__data", "__DATA", _PRIVATE, 8, 0),
        section("__la_symbol_ptr", "__DATA", MACHO_SLOT, 8, 7, 1, 0),
    )
    info = (0, 0, start + places["eager"], 25, 0, 0, start + places["lazy"], lazy, 0, 0)
    commands = [
        segment("__TEXT", _MACHO_BASE, _MACHO_DATA - _MACHO_BASE, 5, *text),
        segment("__DATA", _MACHO_DATA, 0x1000, 3, *data),
        segment("__LINKEDIT", _LINK, link, 1),
        _command(0x80000022, struct.pack("<10I", *info)),
        _command(
            2, struct.pack("<4I", start + places["symbols"], 3, start + places["names"], names)
        ),
        _command(
            0xB,
            struct.pack(
                "<18I", 0, 0, 0, 1, 1, 2, *(0,) * 6, start + places["indirect"], 3, *(0,) * 4
            ),
        ),
        _command(0xC, struct.pack("<4I", 24, 0, 0, 0) + b"/usr/lib/libSystem.B.dylib\0"),
    ]
    sizes = sum(map(len, commands))
    head = struct.pack("<8I", 0xFEEDFACF, 0x01000007, 3, 2, len(commands), sizes, 0x85, 0)
    return head + b"".join(commands)


def _command(number: int, body: bytes) -> bytes:
    body = body.ljust((len(body) + 7) & ~7, b"\0")
    return struct.pack("<II", number, len(body) + 8) + body


def _uleb(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])

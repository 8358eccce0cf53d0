# SPDX-License-Identifier: Apache-2.0
"""What a loader takes for a definition: each field of a symbol, changed, and dlsym asked."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from tests.support.resolving import LIBRARY, Teller, made, teller

PLAIN = ("-pie", "-fPIE")

# st_info, st_other, st_shndx, st_value, version; None leaves what is there
Change = tuple[int | None, int | None, int | None, int | None, int | None]

FUNCTION = c.STB_GLOBAL << 4 | c.STT_FUNC
CHANGES: list[Change] = [
    (None, None, None, None, None),
    *((c.STB_GLOBAL << 4 | kind, None, None, None, None) for kind in (0, 1, 3, 4, 5, 7, 9, 11, 13)),
    *((binding << 4 | 2, None, None, None, None) for binding in (0, 2, 3, 5, 9, 11, 13)),
    *((None, other, None, None, None) for other in (1, 2, 3, 4, 0x60, 0x83)),
    *((None, None, section, None, None) for section in (0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF)),
    (None, None, None, 0, None),
    (None, None, 0, 0, None),
    (None, None, 0xFFF1, 0, None),
    *((None, None, None, None, number) for number in (0, 1, 0x8000, 0x8001)),
    *((None, None, None, None, number) for number in (2, 0x8002)),
]


def changed(library: Path, changes: dict[str, Change], target: Path) -> None:
    """Copy a library; change the dynamic symbols of these names."""
    data = bytearray(library.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data), library.name))
    symbols, versions = image.locate_pointer(c.DT_SYMTAB), image.locate_pointer(c.DT_VERSYM)
    assert symbols is not None
    assert versions is not None
    indices = {one.name: one.index for one in image.symbols}
    for name, (info, other, section, value, version) in changes.items():
        at = symbols + 24 * indices[name]
        for offset, code, new in ((4, "B", info), (5, "B", other), (6, "H", section)):
            if new is not None:
                struct.pack_into("<" + code, data, at + offset, new)
        if value is not None:
            struct.pack_into("<Q", data, at + 8, value)
        if version is not None:
            struct.pack_into("<H", data, versions + 2 * indices[name], version)
    target.write_bytes(data)
    shutil.copymode(library, target)


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_every_field_of_a_symbol(style: str, compiler: str, tmp_path: Path) -> None:
    names = [f"rule_{number}" for number in range(len(CHANGES))]
    text = "\n".join(f"int {name}(void) {{ return {at}; }}" for at, name in enumerate(names))
    library = made(
        "librules.so",
        text,
        # no static symbols: they would be the answer where dlsym has none
        *(*LIBRARY, "-s", "-Wl,--version-script=v.map", f"-Wl,--hash-style={style}"),
        compiler=compiler,
        files={"v.map": "V1 { global: rule_*; };"},
    )
    copy = tmp_path / "librules.so"
    changed(library, dict(zip(names, CHANGES, strict=True)), copy)
    with Teller(teller(*PLAIN, compiler=compiler)) as running:
        handle = running.open(copy, "now,global")
        found = 0
        for name in names:
            truth = running.tell("default", name)
            found += bool(truth)
            running.check(name, truth)
            if compiler == "gcc":
                running.check(f"{name}@V1", running.tell("default", name, "V1"))
                running.check(f"librules.so!{name}@V1", running.tell("handle", handle, name, "V1"))
        assert 0 < found < len(names)


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_two_default_versions_are_none(style: str, tmp_path: Path) -> None:
    text = "int old_way(void) { return 1; } int new_way(void) { return 2; }"
    text += '__asm__(".symver old_way, way@V1"); __asm__(".symver new_way, way@@V2");'
    library = made(
        "libtwo.so",
        text,
        *(*LIBRARY, "-Wl,--version-script=v.map", f"-Wl,--hash-style={style}"),
        files={"v.map": "V1 { global: way; local: *; }; V2 { } V1;"},
    )
    data = bytearray(library.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data), "libtwo.so"))
    versions = image.locate_pointer(c.DT_VERSYM)
    assert versions is not None
    for one in image.symbols:
        if one.name == "way" and not one.is_default:
            data[versions + 2 * one.index + 1] &= 0x7F
    copy = tmp_path / "libtwo.so"
    copy.write_bytes(data)
    with Teller(teller(*PLAIN)) as running:
        running.open(copy, "now,global")
        running.check("way", running.tell("default", "way"))
        for version in ("V1", "V2"):
            running.check(f"way@{version}", running.tell("default", "way", version))


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_who_only_uses_a_name_does_not_define_it(style: str) -> None:
    """DT_HASH has what is undefined, too: thread-local variables, weak ones, data."""
    need = made(
        "libdefines.so",
        "__thread int local = 1; int data = 2; int code(void) { return 3; }",
        *LIBRARY,
        f"-Wl,--hash-style={style}",
    )
    text = "extern __thread int local; extern int data; int code(void); "
    text += "extern int absent __attribute__((weak)); "
    text += "int *a(void) { return &local; } int *b(void) { return &data; } "
    text += "void *d(void) { return (void *)code; } int *e(void) { return &absent; }"
    library = made("libuses.so", text, *LIBRARY, f"-Wl,--hash-style={style}", links=[need])
    with Teller(teller(*PLAIN)) as running:
        handle = running.open(library, "now,global")
        # here dlsym itself is wrong: it takes an undefined variable of this kind for a definition
        running.check("local", running.tell("call", handle, "a"))
        for name in ("data", "code", "absent"):
            running.check(name, running.tell("default", name))
            running.check(f"libuses.so!{name}", running.tell("handle", handle, name))

# SPDX-License-Identifier: Apache-2.0
"""The table of functions in the place of others: what is packed is read back."""

from __future__ import annotations

import pytest

from soscope.select.patterns import compile_glob
from soscope.wire import layout, patches
from soscope.wire.patches import Caller, PatchTable


def make() -> PatchTable:
    table = PatchTable()
    callers = [
        Caller(layout.PATCH_FROM_MAIN),
        Caller(layout.PATCH_FROM_NAME, compile_glob("libfoo*.so").pack()),
        Caller(layout.PATCH_FROM_PATH, compile_glob("/usr/lib/*").pack()),
    ]
    table.add("malloc", "mine", "/a/mine.so", callers)
    table.add("_ZN1aC1Ev", "other", "/a/mine.so", [])
    table.add("fr\udce9e", "third", "/b/\udce9.so", [])
    return table


def same(left: PatchTable, right: PatchTable) -> bool:
    def rows(table: PatchTable) -> list[object]:
        return [
            *(patch and (patch.symbol, patch.name, patch.library) for patch in table.patches),
            *(
                [(caller.kind, caller.automaton[:64]) for caller in patch.callers] if patch else []
                for patch in table.patches
            ),
            *(library and (library.path, library.handle) for library in table.libraries),
        ]

    return rows(left) == rows(right)


def test_a_table_is_read_as_it_was_packed() -> None:
    table = make()
    data = table.pack(layout.PATCHES_MUST)
    assert len(data) % 8 == 0
    assert int.from_bytes(data[:4], "little") == len(data)
    again = patches.read(data)
    assert same(table, again)
    assert again.state == layout.PATCHES_WAITING
    assert [each.path for each in again.libraries if each] == ["/a/mine.so", "/b/\udce9.so"]
    assert patches.read(again.pack(layout.PATCHES_MUST)).pack() == again.pack()


def test_patterns_are_the_ones_that_were_asked_for() -> None:
    table = patches.read(make().pack())
    patch = table.patches[0]
    assert patch is not None
    packed = patch.callers[1].automaton
    assert packed == compile_glob("libfoo*.so").pack()[: len(packed)]
    assert len(compile_glob("libfoo*.so").pack()) - len(packed) < 4  # padding


def test_a_symbol_keeps_its_place_and_free_ones_are_used_again() -> None:
    table = make()
    table.patches[1] = None
    table = patches.read(table.pack())
    table.add("malloc", "newer", "/c.so", [])
    table.add("free", "none", "/c.so", [])
    assert patches.indices(table, ["malloc", "free"]) == [0, 1]
    with pytest.raises(KeyError, match="calloc"):
        patches.indices(table, ["malloc", "calloc"])


def test_what_is_loaded_is_loaded_anew_for_another_command() -> None:
    """The file may be another one by now; and each opening is closed by itself."""
    table = make()
    for library in table.libraries:
        assert library is not None
        library.handle = 4096
    table.add("calloc", "mine", "/a/mine.so", [])
    table.add("realloc", "mine", "/a/mine.so", [])
    assert [library.handle for library in table.libraries if library] == [4096, 4096, 0]
    assert table.unused() == []
    table.patches[0] = table.patches[1] = None
    assert table.unused() == [0]


def test_too_much_is_an_error() -> None:
    table = PatchTable()
    for index in range(layout.MAX_PATCHES):
        table.add(f"f{index}", "mine", "/a.so", [])
    with pytest.raises(ValueError, match="256"):
        table.add("one_more", "mine", "/a.so", [])
    large = PatchTable()
    large.add("f", "x" * layout.PATCHES_SIZE, "/a.so", [])
    with pytest.raises(ValueError, match="bytes of patches"):
        large.pack()


def test_no_table_is_an_empty_one() -> None:
    for data in (b"", bytes(100), bytes(layout.PATCHES.size)):
        table = patches.read(data)
        assert (table.patches, table.libraries, table.state) == ([], [], layout.PATCHES_NONE)


def test_what_all_patches_of_a_command_share_is_there_once() -> None:
    callers = [Caller(layout.PATCH_FROM_NAME, compile_glob(f"*lib{n}*.so").pack()) for n in "abcd"]
    table = PatchTable()
    for n in range(layout.MAX_PATCHES):
        table.add(f"symbol{n}", "mine", "/a/mine.so", callers)
    assert same(table, patches.read(table.pack()))


def test_a_library_that_is_kept_is_never_closed() -> None:
    table = PatchTable()
    table.add("malloc", "mine", "/a/mine.so", [])
    assert table.libraries[0] is not None
    table.libraries[0].handle = 0x1000
    assert table.keep(0) == ["/a/mine.so"]
    table.patches[0] = None
    read = patches.read(table.pack())
    assert read.unused() == []
    assert read.keep(0) == []  # said once

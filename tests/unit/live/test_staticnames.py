# SPDX-License-Identifier: Apache-2.0
"""Static names: whatever a file was stripped to, the values that nm read before."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from soscope.binfmt.elf import sections
from soscope.binfmt.source import BufferSource, open_regular
from soscope.live.names.staticnames import DEBUG_FILE, MINIDEBUG, STATIC, ImageNames
from tests.support.files.elffiles import build_id, built, nm, pack, run, split

PROGRAM = """
static __attribute__((noinline)) int hidden(int a) { return a * 3 + 1; }
int shown(int a) { return a + hidden(a); }
static int counter = 7;
int main(void) { return shown(counter++); }
"""
NAMES = ("hidden", "shown", "counter", "main")


def values(path: Path) -> dict[str, int]:
    """Return the value of each of NAMES, as nm says."""
    known = {name: value for value, _, _, name in nm(path)}
    return {name: known[name] for name in NAMES}


def names_of(path: Path, root: Path | None = None, source: bytes | None = None) -> ImageNames:
    """Make the names of a file in the root `root`, without one in its own folder."""
    below = f"/{path.relative_to(root or path.parent)}"
    return ImageNames(
        BufferSource(path.read_bytes() if source is None else source, path.name),
        build_id=build_id(path),
        path=below,
        roots=[str(root or path.parent)],
    )


def found(names: ImageNames) -> tuple[set[str], dict[str, int]]:
    """Look all of NAMES up; return the rules that were used and the values."""
    rows = {name: names.find(name) for name in NAMES}
    assert all(len(row) <= 1 for row in rows.values())
    rules = {row[0][0] for row in rows.values() if row}
    return rules, {name: row[0][1].value for name, row in rows.items() if row}


def install(path: Path, debug: Path, root: Path) -> Path:
    """Put a debug file where the build-id of `path` says."""
    text = build_id(path).hex()
    place = root / "usr/lib/debug/.build-id" / text[:2] / f"{text[2:]}.debug"
    place.parent.mkdir(parents=True)
    shutil.move(debug, place)
    return place


@pytest.mark.parametrize("flags", [("-pie",), ("-no-pie", "-fno-pie"), ("-static",)], ids=" ".join)
def test_a_file_that_was_not_stripped(tmp_path: Path, flags: tuple[str, ...]) -> None:
    path = built(tmp_path, "program", PROGRAM, *flags)
    assert found(names_of(path)) == ({STATIC}, values(path))


def test_a_stripped_file_has_none(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM, "-s")
    names = names_of(path)
    assert found(names) == (set(), {})
    assert list(names.parts()) == []
    assert names.notes == []


def test_packed_symbols(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    wanted = values(path)
    pack(path)
    assert found(names_of(path)) == ({MINIDEBUG}, wanted)


def test_packed_symbols_that_are_cut(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    pack(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"\xfd7zXZ\0")
    data[at + 64 : at + 96] = bytes(32)
    names = names_of(path, source=bytes(data))
    assert found(names) == (set(), {})
    assert len(names.notes) == 1
    assert ".gnu_debugdata" in names.notes[0]


def test_packed_symbols_of_many_images_have_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = built(tmp_path, "program", PROGRAM)
    pack(path)
    first = names_of(path)
    assert found(first)[1]
    monkeypatch.setattr(sections, "_MAX_HELD", sections.UnpackedSource.held)
    second = names_of(path)
    assert found(second) == (set(), {})
    assert "of other images" in second.notes[0]
    monkeypatch.undo()
    assert found(names_of(path)) == found(first)


def test_a_debug_file_by_build_id(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    wanted = values(path)
    split(path, tmp_path / "debug", link=False)
    place = install(path, tmp_path / "debug", tmp_path)
    names = names_of(path, tmp_path)
    assert found(names) == ({DEBUG_FILE}, wanted)
    assert names.debug_path == str(place)


def test_a_debug_file_for_an_image_without_a_file(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    wanted = values(path)
    split(path, tmp_path / "debug", link=False)
    install(path, tmp_path / "debug", tmp_path)
    names = ImageNames(None, build_id=build_id(path), path="", roots=[str(tmp_path)])
    assert found(names) == ({DEBUG_FILE}, wanted)


def test_the_targets_root_comes_first(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    split(path, tmp_path / "debug", link=False)
    first, second = tmp_path / "first", tmp_path / "second"
    install(path, Path(shutil.copy(tmp_path / "debug", tmp_path / "copy")), second)
    place = install(path, tmp_path / "debug", first)
    source = BufferSource(path.read_bytes(), path.name)
    roots = [str(tmp_path / "none"), str(first), str(second)]
    names = ImageNames(source, build_id=build_id(path), path="/program", roots=roots)
    assert names.find("hidden")
    assert names.debug_path == str(place)


def test_a_debug_file_of_another_build(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    other = built(tmp_path, "other", PROGRAM.replace("static int", "int padding; static int"))
    split(path, tmp_path / "debug", link=False)
    split(other, tmp_path / "other.debug", link=False)
    place = install(path, tmp_path / "other.debug", tmp_path)
    names = names_of(path, tmp_path)
    assert found(names) == (set(), {})
    assert names.notes == [f"{place}: not used: it is of build-id {build_id(other).hex()}"]


@pytest.mark.parametrize("below", [".", ".debug", "usr/lib/debug/sub"])
@pytest.mark.parametrize("identified", ["sha1", "none"])
def test_a_debug_file_by_its_link(tmp_path: Path, below: str, identified: str) -> None:
    (tmp_path / "sub").mkdir()
    path = built(tmp_path / "sub", "program", PROGRAM, f"-Wl,--build-id={identified}")
    wanted = values(path)
    split(path, tmp_path / "program.debug")
    place = (tmp_path if below.startswith("usr") else path.parent) / below / "program.debug"
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(tmp_path / "program.debug", place)
    assert found(names_of(path, tmp_path)) == ({DEBUG_FILE}, wanted)


def test_a_link_with_another_checksum(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    split(path, tmp_path / "program.debug")
    with (tmp_path / "program.debug").open("ab") as file:
        file.write(b"more")
    names = names_of(path, tmp_path)
    assert found(names) == (set(), {})
    assert len(names.notes) == 1
    assert "not the checksum" in names.notes[0]


def test_a_stale_debug_file_with_the_same_name(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM, "-Wl,--build-id=none")
    split(path, tmp_path / "program.debug")
    other = built(tmp_path, "other", PROGRAM.replace("hidden", "unseen"), "-Wl,--build-id=none")
    run("objcopy", "--only-keep-debug", other, tmp_path / "program.debug")
    names = names_of(path, tmp_path)
    assert names.find("unseen") == []
    assert names.find("hidden") == []
    assert len(names.notes) == 1


def test_a_debug_file_that_is_linked_elsewhere(tmp_path: Path) -> None:
    path = built(tmp_path, "program", PROGRAM)
    before = values(path)
    split(path, tmp_path / "debug", link=False)
    install(path, tmp_path / "debug", tmp_path)
    # as prelink does: every segment moves up, the build-id stays
    data = bytearray(path.read_bytes())
    table, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(table, table + 56 * count, 56):
        for field in (16, 24):
            vaddr = struct.unpack_from("<Q", data, at + field)[0]
            struct.pack_into("<Q", data, at + field, vaddr + 0x4100_0000)
    names = names_of(path, tmp_path, bytes(data))
    wanted = {name: value + 0x4100_0000 for name, value in before.items()}
    assert found(names) == ({DEBUG_FILE}, wanted)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", ".", "nowhere", "nul\0"):
        assert open_regular(f"{tmp_path}/{name}") is None
    assert open_regular("/dev/null") is None
    path = built(tmp_path, "program", PROGRAM)
    text = build_id(path).hex()
    split(path, tmp_path / "debug", link=False)
    place = tmp_path / "usr/lib/debug/.build-id" / text[:2]
    place.mkdir(parents=True)
    os.mkfifo(place / f"{text[2:]}.debug")
    assert found(names_of(path, tmp_path)) == (set(), {})


def test_a_file_that_is_none() -> None:
    names = ImageNames(BufferSource(b"#!/bin/sh\n", "script"), build_id=b"", path="/x", roots=[""])
    assert list(names.parts()) == []
    assert len(names.notes) == 1

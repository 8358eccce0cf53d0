# SPDX-License-Identifier: Apache-2.0
"""`soscope map` of damaged files: what is missing is said, of the right file, and of that alone."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

import soscope
from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.verbs.main import main
from tests.support.files.elffiles import built
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.filemap import FILE_MAP

_TEXT = """
#include <stdlib.h>
int here(void) { return 0; }
int f(void) { return here() + abs(atoi("1")); }
"""
_FAR = 0x7FFFFF


def _library(folder: Path, name: str, text: str = _TEXT) -> Path:
    words = ("-shared", "-fPIC", "-O0", f"-Wl,-soname,{name},-z,lazy", "-fno-builtin")
    return built(folder, name, text, *words)


def _change(path: Path, tag: int, value: int) -> None:
    """Set a tag of the dynamic section."""
    data = bytearray(path.read_bytes())
    image = ElfImage.from_source(BufferSource(data, str(path)))
    dynamic = next(one for one in image.segments if one.type == c.PT_DYNAMIC)
    place = [entry for entry, _ in image.dynamic.entries].index(tag)
    struct.pack_into("<Q", data, dynamic.offset + 16 * place + 8, value)
    path.write_bytes(data)


def _images(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    document = json.loads(capfd.readouterr().out)
    assert not wrong_members(document, FILE_MAP)
    images: list[dict[str, Any]] = document["images"]
    return images


@pytest.mark.parametrize("lack", [OSError(errno.EIO, "Input/output error"), MemoryError()], ids=str)
@pytest.mark.parametrize("verb", ["map", "check"])
def test_a_file_that_cannot_be_read_any_more_leaves_the_others_whole(
    verb: str,
    lack: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """As on a disk with bad blocks; each block is the first that cannot be read once."""
    paths = [_library(tmp_path, name) for name in ("liba.so", "libb.so", "libc.so")]
    names = [str(one) for one in paths]
    really = os.pread
    bad = paths[1].stat().st_ino
    said = "input/output error" if isinstance(lack, OSError) else "cannot allocate memory"
    failed = 0
    for limit in (0, 64, 0x200, 0x1000, 0x2000, 0x3000):
        hit: list[int] = []

        def read(
            number: int, size: int, at: int, limit: int = limit, hit: list[int] = hit
        ) -> bytes:
            if at + size > limit and os.fstat(number).st_ino == bad:
                hit.append(at)
                # another one each time: what is raised keeps its frames, and they keep files open
                raise type(lack)(*lack.args)
            return really(number, size, at)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", read)
            status = main([verb, "--json", *names])
        told = capfd.readouterr()
        found = [one["path"] for one in json.loads(told.out)["images"]]
        assert bool(hit) == bool(status) == bool(told.err)
        if hit:
            failed += 1
            assert told.err == f"soscope: {names[1]}: {said}\n"
            assert found == [names[0], names[2]]
    assert failed > 3


def test_a_filter_leaves_no_damage_unsaid(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good = _library(tmp_path, "liba.so")
    bad = _library(tmp_path, "libb.so", _TEXT.replace("abs", "labs"))
    _change(bad, c.DT_PLTRELSZ, _FAR * 24)
    for words in ((), ("--json",), ("--slots",)):
        assert main(["map", *words, "-e", "abs", str(good), str(bad)]) == 1
        told = capfd.readouterr()
        reasons = _partial(capfd, bad)
        assert told.err == "".join(f"soscope: {bad}: partial: {one}\n" for one in reasons)
        assert str(good) in told.out
        assert str(bad) not in told.out


def _partial(capfd: pytest.CaptureFixture[str], path: Path) -> list[str]:
    assert main(["map", "--json", str(path)]) == 1
    (image,) = _images(capfd)
    reasons: list[str] = image["partial"]
    assert reasons
    return reasons


def test_reasons_that_are_found_late_are_on_the_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only who gives what the library defines itself needs its name."""
    path = _library(tmp_path, "liba.so")
    _change(path, c.DT_SONAME, _FAR)
    assert main(["map", str(path)]) == 1
    page = capfd.readouterr().out
    assert page.count("  partial  ") == 1
    assert "DT_SONAME" in page
    assert page.index("  partial  ") < page.index("SLOT ")


@pytest.mark.parametrize("table", ["slots", "stubs", "symbols", "needed"])
def test_lines_of_damage_begin_with_their_file(
    table: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = [_library(tmp_path, name) for name in ("liba.so", "libb.so")]
    for path in paths:
        for tag in (c.DT_PLTRELSZ, c.DT_STRSZ):
            _change(path, tag, _FAR)
    assert main(["map", f"--{table}", *map(str, paths)]) == 1
    found = [line for line in capfd.readouterr().out.splitlines() if "partial:" in line]
    assert {line.partition("  # partial: ")[0] for line in found} == set(map(str, paths))
    assert main(["map", f"--{table}", str(paths[0])]) == 1
    assert "\n# partial: " in "\n" + capfd.readouterr().out


def _without_relocation(path: Path) -> int:
    """Make the first JUMP_SLOT one of no type; return the stub that leads through nothing now."""
    image = soscope.Image.open(path)
    stub = image.slots["abs"].stubs[0].vaddr
    data = bytearray(path.read_bytes())
    elf = ElfImage.from_source(BufferSource(data, str(path)))
    at, size = elf.locate_pointer(c.DT_JMPREL), elf.dynamic.get(c.DT_PLTRELSZ)
    assert at
    assert size
    place = next(
        one
        for one in range(at, at + size, 24)
        if struct.unpack_from("<Q", data, one)[0] == image.slots["abs"].vaddr
    )
    struct.pack_into("<I", data, place + 8, 0)
    path.write_bytes(data)
    return stub


def test_filters_are_for_stubs_without_a_slot_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = _library(tmp_path, "liba.so")
    stub = hex(_without_relocation(path))
    main(["map", "--stubs", str(path)])
    assert stub in capfd.readouterr().out
    main(["map", "--json", str(path)])
    (image,) = _images(capfd)
    assert [one["stub"] for one in image["stubs_without_slot"]] == [stub]
    main(["map", str(path)])
    assert "1 more lead through no slot" in capfd.readouterr().out
    for name in ("nosuch", "atoi"):
        main(["map", "--stubs", "-e", name, str(path)])
        assert stub not in capfd.readouterr().out
        main(["map", "--json", "-e", name, str(path)])
        (image,) = _images(capfd)
        assert image["stubs_without_slot"] == []
        main(["map", "-e", name, str(path)])
        assert "no slot\n" not in capfd.readouterr().out


def test_unreadable_tables_of_a_library_are_the_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever cannot be asked may be the one; what others have is theirs."""
    library = built(tmp_path, "libx.so", "int x(void) { return 0; }", "-shared", "-fPIC")
    source = "int x(void), abs(int); int main(void) { return x() + abs(1); }"
    words = ("-L.", "-lx", "-Wl,-rpath,$ORIGIN", "-fno-builtin")
    program = built(tmp_path, "program", source, *words)
    whole = Path(shutil.copy(library, tmp_path / "whole")).read_bytes()
    data = bytearray(whole)
    elf = ElfImage.from_source(BufferSource(data, str(library)))
    table = elf.locate_pointer(c.DT_GNU_HASH)
    assert table
    struct.pack_into("<I", data, table + 8, 3)  # the number of bloom words is a power of two
    library.write_bytes(data)
    main(["map", "--json", str(program)])
    (image,) = _images(capfd)
    slots = {one["symbol"]: one for one in image["slots"]}
    assert slots["x"]["provider"] is None
    assert slots["x"]["provider_reason"] == "libx.so cannot be read, and perhaps there"
    assert slots["abs"]["provider"] == "libc.so.6"
    library.write_bytes(whole)
    os.utime(library, ns=(1, 1))
    assert soscope.Image.open(program).slots["x"].provider == "libx.so"


@pytest.mark.parametrize(
    ("tag", "what"),
    [(c.DT_VERDEF, "vaddr at offset 0x7fffff"), (c.DT_STRSZ, "st_name of symbol")],
)
def test_damage_among_symbols_is_said(
    tag: int, what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "versions").write_text("V1 { here; there; };")
    words = ("-shared", "-fPIC", "-nostdlib", f"-Wl,--version-script,{tmp_path}/versions")
    path = built(tmp_path, "liba.so", "int here, there;", *words)
    assert not soscope.Image.open(path).slots  # whose symbols would be said to be damaged
    assert main(["map", "--symbols", str(path)]) == 0
    usual = capfd.readouterr().out
    assert "here@V1" in usual
    _change(path, tag, 2 if tag == c.DT_STRSZ else _FAR)
    assert main(["map", "--symbols", str(path)]) == 1
    told = capfd.readouterr().out
    assert f"# partial: {what}" in told
    assert told.count("# partial: ") < 20
    rows = [line for line in told.splitlines() if not line.startswith("#")]
    assert len(rows) == len(usual.splitlines())

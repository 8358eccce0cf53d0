# SPDX-License-Identifier: Apache-2.0
"""The verbs, on Mach-O images of every generation: what was written is what they print."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from soscope.verbs.main import main
from tests.support.macho import machoshapes as shapes
from tests.support.macho import machowriter as writer
from tests.support.macho.machomade import NAMES, made
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.filemap import FILE_MAP

MANY = ("info-arm64-dylib", "chained-arm64e-9-3", "classic-ppc-pic-executable", "info-i386-last")

OWN_NAME = "/usr/lib/libself.dylib"


def mapped(capfd: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    """Return the images of `soscope map --json`."""
    assert main(["map", "--json", *map(str, words)]) == 0
    document = json.loads(capfd.readouterr().out)
    assert not wrong_members(document, FILE_MAP)
    images: list[dict[str, Any]] = document["images"]
    return images


def same(image: dict[str, Any], truth: shapes.Made, start: int = 0) -> None:
    """Compare an image with what was written; it lies at `start` in its file."""
    rows = [row for row in truth.rows if row.is_slot]
    assert (image["arch"], image["format"]) == (truth.arch, "mach-o")
    assert (image["partial"], image["stubs_without_slot"]) == ([], [])
    assert image["needed"] == [name for name, _ in shapes.LIBRARIES]
    assert len(image["slots"]) == len(rows)
    for slot, row in zip(image["slots"], rows, strict=True):
        assert int(slot["slot"], 16) == row.slot
        assert int(slot["offset"], 16) == start + row.offset
        assert (slot["section"], slot["symbol"]) == (row.section, row.symbol)
        assert slot["defined_here"] == row.defined
        assert slot["version"] is None
        assert slot["resolver_argument"] == row.argument
        assert (slot["helper"] and int(slot["helper"], 16)) == row.helper
        if row.defined:  # by its own name, or the file's
            name = OWN_NAME if image["kind"] == "dylib" else os.path.basename(image["path"])
            assert name.startswith(slot["provider"])
        else:
            assert (slot["provider"] or "") == row.library
        assert bool(slot["provider_reason"]) == (slot["provider"] is None)
        signed = slot["signed"]
        values = (signed["key"], signed["diversity"], signed["address_diversity"]) if signed else ()
        assert values == (row.signed or ())
        stubs = [one for one in slot["stubs"] if one["kind"] != "objc-stub"]
        assert [int(one["stub"], 16) for one in stubs] == ([row.stub] if row.stub else [])
        for one in slot["stubs"]:
            assert one["selector"] == truth.selectors.get(int(one["stub"], 16))


def test_a_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(made(name).data)
    images = {Path(one["path"]).name: one for one in mapped(capfd, tmp_path)}
    assert set(images) == set(NAMES)
    for name in NAMES:
        same(images[name], made(name))


@pytest.mark.parametrize("wide", [False, True])
def test_a_universal_file(wide: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fat"
    truths = [made(name) for name in MANY]
    data = writer.fat([(one.arch, one.data) for one in truths], wide=wide, align=14)
    path.write_bytes(data)
    found = mapped(capfd, path)
    for image, truth in zip(found, truths, strict=True):
        same(image, truth, data.find(truth.data))
    for truth in truths:
        [image] = mapped(capfd, "--arch", truth.arch, path)
        same(image, truth, data.find(truth.data))


def test_an_archive(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lib.a"
    truths = [made(name) for name in MANY]
    data = writer.archive([(f"{one.arch}.o", one.data) for one in truths])
    path.write_bytes(data)
    for image, truth in zip(mapped(capfd, path), truths, strict=True):
        same(image, truth, data.find(truth.data))
        assert image["path"] == f"{path}({truth.arch}.o)"


def test_images_within_another_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "outer"
    inside = [made("chained-arm64-6-1"), made("chained-arm64e-12-2")]
    fat = writer.fat([(one.arch, one.data) for one in inside], align=14)
    outer = made("info-x86_64-dylib")
    data = outer.data + bytes(777) + fat
    path.write_bytes(data)
    for image, truth in zip(mapped(capfd, "--embedded", path), [outer, *inside], strict=True):
        same(image, truth, data.find(truth.data))


def test_sound_images_have_no_faults(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(made(name).data)
    assert main(["check", "--run", str(tmp_path)]) == 0
    out = capfd.readouterr().out
    assert ": fault:" not in out
    assert f"{len(NAMES)} images, " in out


@pytest.mark.parametrize("arch", ["arm64", "x86_64", "i386"])
def test_helpers_that_name_the_first_record(
    arch: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    truth = shapes.dyld_info(arch, lazy_offset=0)
    path = tmp_path / arch
    path.write_bytes(truth.data)
    for words in (["check"], ["check", "--run"]):
        assert main([*words, "--json", str(path)]) == 1
        [image] = json.loads(capfd.readouterr().out)["images"]
        told = {one["symbol"] for one in image["faults"] if one["slug"] == "wrong-argument"}
        assert told == {row.symbol for row in truth.rows if row.argument}

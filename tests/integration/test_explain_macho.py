# SPDX-License-Identifier: Apache-2.0
"""The life of a call in Mach-O files, against what they were written with."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.macho.fat import slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import FileSource
from soscope.verbs.main import main
from tests.support.files.explaining import Explain
from tests.support.macho import machomade
from tests.support.macho.machowriter import fat


@pytest.mark.parametrize("name", sorted(machomade.NAMES))
def test_the_way_of_every_lazy_slot_that_mach_o_has_known(
    tmp_path: Path, name: str, explain: Explain
) -> None:
    image = machomade.made(name)
    if image.arch == "arm64e":
        return  # has nothing that is lazy
    path = tmp_path / "image"
    path.write_bytes(image.data)
    if image.arch in {"armv7", "arm64_32"}:
        document = explain("--", path, "_puts")
        (importer,) = document["images"]
        assert f"no decoder for {image.arch}" in str(document["ways"])
        return
    lazy = [one for one in image.rows if one.helper is not None and one.stub is not None]
    for row in lazy[:2]:
        document = explain("--", path, row.symbol)
        (importer,) = document["images"]
        (way,) = [one for one in document["ways"] if int(one["slot"]["slot"], 16) == row.slot]
        assert way["wrong"] == []
        steps = {one["step"]: one for one in way["steps"]}
        assert int(steps["stub"]["lines"][0]["vaddr"], 16) == row.stub
        late = steps.get("helper") or steps["plt0"]
        assert int(late["lines"][0]["vaddr"], 16) == row.helper
        values = [one["value"] for one in way["resolver_arguments"]]
        assert hex(row.argument or 0) in values
        if image.arch.startswith("ppc") or image.arch == "i386":
            assert "macOS 12" not in importer["laziness"]
        else:
            assert "dyld3" in importer["laziness"]
        if name.startswith("classic"):
            meanings = [one["meaning"] for one in way["resolver_arguments"]]
            assert meanings == ["the image's mach_header", "the slot"]


def test_a_helper_that_names_another_record_is_said_to(tmp_path: Path, explain: Explain) -> None:
    """zig 0.13 to 0.17 give every stub helper of arm64 the offset 0."""
    image = machomade.made("info-arm64-dylib")
    (row,) = [one for one in image.rows if one.symbol == "_malloc"]
    path = tmp_path / "image"
    path.write_bytes(image.data)
    document = explain("--", path, row.symbol)
    line = next(one for one in document["ways"][0]["steps"] if one["step"] == "helper")["lines"][0]
    literal = int(line["refers_to"], 16)
    with path.open("rb") as file:
        source = FileSource(file.fileno(), str(path))
        at = MachoMap(source, slices(source)[0]).image.offset_of(literal)
    assert at is not None
    path.write_bytes(image.data[:at] + bytes(4) + image.data[at + 4 :])
    document = explain("--", path, row.symbol, status=1)
    (wrong,) = document["ways"][0]["wrong"]
    assert f"is given 0x0, but the slot's own record is {row.argument:#x}" in wrong


def test_the_images_of_a_universal_file_stand_side_by_side(
    tmp_path: Path, explain: Explain, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [machomade.made(f"info-{arch}-dylib") for arch in ("x86_64", "arm64")]
    path = tmp_path / "universal"
    path.write_bytes(fat([(one.arch, one.data) for one in parts]))
    assert [one["arch"] for one in explain(path, "puts")["images"]] == ["x86_64", "arm64"]
    assert [one["arch"] for one in explain(path, "puts", "--arch", "arm64")["images"]] == ["arm64"]
    assert main(["explain", str(path), "_puts", "--width", "140"]) == 0
    said = capfd.readouterr().out
    assert "│" in said
    assert "ldr w16" in said
    assert "push $0x" in said
    assert main(["explain", str(path), "puts", "--arch", "ppc"]) == 1
    assert "no image for ppc" in capfd.readouterr().err


@pytest.mark.parametrize("name", [one for one in sorted(machomade.NAMES) if "chained" in one])
def test_a_stub_of_mach_o_leads_through_its_slot(
    tmp_path: Path, name: str, explain: Explain
) -> None:
    image = machomade.made(name)
    path = tmp_path / "image"
    path.write_bytes(image.data)
    rows = [one for one in image.rows if one.stub is not None]
    assert rows
    for row in (rows[0], rows[-1]):
        document = explain("--", path, row.symbol)
        (way,) = [one for one in document["ways"] if int(one["slot"]["slot"], 16) == row.slot]
        (stub,) = [one for one in way["steps"] if one["step"] == "stub"]
        lines = stub["lines"]
        assert (lines[0]["vaddr"], lines[-1]["target"]) == (hex(row.stub or 0), hex(row.slot))
        assert way["resolver_arguments"] == []
        is_signed = row.signed is not None
        assert is_signed == any(one.startswith("signed with key") for one in stub["notes"])


@pytest.mark.parametrize("arch", ["x86_64-unnamed", "arm64-unnamed", "arm64e-unnamed"])
def test_the_stub_for_a_selector(tmp_path: Path, arch: str, explain: Explain) -> None:
    image = machomade.made(f"objc-{arch}")
    path = tmp_path / "image"
    path.write_bytes(image.data)
    for stub, selector in image.selectors.items():
        document = explain("--", path, f"_objc_msgSend${selector}")
        (way,) = document["ways"]
        assert [int(one["stub"], 16) for one in way["slot"]["stubs"]] == [stub]
        (step,) = [one for one in way["steps"] if one["step"] == "stub"]
        assert f"the selector is {selector}" in step["notes"]
        assert int(step["lines"][0]["vaddr"], 16) == stub
    assert main(["explain", str(path), "_objc_msgSend$nothing"]) == 1


def test_images_of_the_file_that_are_damaged_are_told(
    tmp_path: Path, explain: Explain, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [machomade.made(f"info-{arch}-dylib") for arch in ("x86_64", "arm64")]
    data = bytearray(fat([(one.arch, one.data) for one in parts]))
    at = data.index(parts[1].data)
    path = tmp_path / "universal"
    for place, byte in ((at + 12, 0x77), (at + 21, 0xFF)):  # no kind of file; too long commands
        path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
        document = explain(path, "puts", status=1)
        (importer,) = document["images"]
        assert importer["arch"] == "x86_64"
        assert [f"offset {at:#x}"[:-2] in why for why in importer["partial"]] == [True]
        assert main(["explain", str(path), "puts"]) == 1
        assert f"{path}: partial: " in capfd.readouterr().err


def test_a_slot_that_nothing_binds_is_said_to_be_wrong(tmp_path: Path, explain: Explain) -> None:
    image = machomade.made("info-arm64-dylib")
    row = next(one for one in image.rows if one.helper is not None)
    name = b"\x40" + row.symbol.encode() + b"\0"
    at = image.data.index(name)
    path = tmp_path / "image"
    # the record's last opcode, which binds, becomes one that sets a type
    end = image.data.index(b"\x90\0", at)
    path.write_bytes(image.data[:end] + b"\x51" + image.data[end + 1 :])
    document = explain("--", path, row.symbol, status=1)
    (way,) = [one for one in document["ways"] if int(one["slot"]["slot"], 16) == row.slot]
    assert (way["slot"]["binding"], way["provider"]) == ("unbound", None)
    assert way["wrong"] == ["no record binds the slot: a call goes astray"]

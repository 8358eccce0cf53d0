# SPDX-License-Identifier: Apache-2.0
"""Mach-O files of others: wheels for macOS and what zig links, against LIEF and by running."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from soscope.binfmt.macho.fat import embedded
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import BufferSource
from soscope.inspect.check.check import check
from soscope.linker.image import Image
from soscope.model.filemap import JUMP_TABLE
from soscope.verbs.main import main
from tests.support.macho import machofiles
from tests.support.truth.machopeer import Compared, compare, compare_all
from tests.support.truth.machorun import Runner

pytestmark = pytest.mark.soak

Record = Callable[[str, object], None]


def test_wheels(tmp_path: Path, record_property: Record) -> None:
    wheels = machofiles.wheels()
    assert len(wheels) >= 10
    compared = Compared()
    for wheel in wheels:
        for path in machofiles.images(wheel, tmp_path):
            compare_all(path, compared)
    for what, count in sorted(compared.counts.items()):
        record_property(what, count)
        print(what, count)
    assert compared.differences == []
    assert compared.wrong_helpers == []
    assert compared.counts["stubs"] > 10_000
    assert compared.counts["objc stubs"] > 100
    for one in ("ppc", "ppc64", "i386", "x86_64", "arm64", "arm64e"):
        assert compared.counts[one], one
    for one in ("classic", "opcodes", "chained", "hidden"):
        assert compared.counts[one], one


def test_stubs_of_wheels_run(tmp_path: Path, record_property: Record) -> None:
    ran = 0
    for wheel in machofiles.wheels():
        for path in machofiles.images(wheel, tmp_path):
            data = path.read_bytes()
            source = BufferSource(data)
            for part in embedded(source):
                image = MachoMap(source, part)
                # Unicorn has no 64-bit PowerPC.
                if image.stubs and image.arch != "ppc64":
                    ran += run(path.name, image, data[part.offset : part.offset + part.size])
    record_property("stubs", ran)
    print("stubs run", ran)
    assert ran > 10_000


def test_check_finds_wheels_sound(tmp_path: Path, record_property: Record) -> None:
    """`soscope check --run` of every image, those within other files, too."""
    ran: Counter[str] = Counter()
    for wheel in machofiles.wheels():
        for path in machofiles.images(wheel, tmp_path):
            for image in Image.open(path, embedded=True).slices:
                found = check(image, run=True)
                assert not found.faults, (wheel.name, path.name, found.faults)
                assert found.ran is not None
                ran[image.arch] += found.ran
                ran["not run"] += sum((found.not_run or {}).values())
    for what, count in sorted(ran.items()):
        record_property(what, count)
        print(what, count)
    assert ran.total() > 10_000
    assert ran["ppc64"] == 0
    for one in ("ppc", "i386", "x86_64", "arm64", "arm64e", "not run"):
        assert ran[one], one


@pytest.mark.parametrize("version", machofiles.ZIGS)
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_zig(arch: str, version: str, capfd: pytest.CaptureFixture[str]) -> None:
    program = machofiles.zig(version)
    path = machofiles.zig_program(program, arch)
    compared = Compared()
    compare(path, compared)
    assert compared.differences == []
    assert compared.counts["helpers"] >= 9
    # Its helpers for arm64 all hand over the first record.
    wrong = compared.counts["helpers"] - 1 if arch == "aarch64" else 0
    assert len(compared.wrong_helpers) == wrong
    for words, slugs in (([], ["wrong-argument"]), (["--run"], ["run", "wrong-argument"])):
        assert main(["check", "--json", *words, str(path)]) == bool(wrong)
        (told,) = json.loads(capfd.readouterr().out)["images"]
        found = Counter(one["slug"] for one in told["faults"])
        assert found == dict.fromkeys(slugs, wrong) if wrong else not found


def run(name: str, image: MachoMap, data: bytes) -> int:
    """Call every stub of one image, before and after its slot is bound."""
    runner = Runner(data)
    slots = {slot.vaddr: slot for slot in image.slots}
    count = 0
    for stub in image.stubs:
        if stub.kind == JUMP_TABLE:
            continue
        slot = slots[stub.slot]
        count += 1
        if slot.vaddr not in runner.filled:
            if slot.helper is not None:
                first = runner.call(stub.vaddr)
                given = {*first.stack, *first.registers}
                assert slot.resolver_argument in given, (name, image.arch, slot, first)
            # What is bound early is so even where it leads to a helper.
            runner.fill(slot.vaddr)
        assert runner.call(stub.vaddr).slot == slot.vaddr, (name, image.arch, slot)
    return count

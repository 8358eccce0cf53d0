# SPDX-License-Identifier: Apache-2.0
"""Images that lie within other files, images among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.errors import FormatError
from soscope.linker.image import Image
from soscope.model import arch as machines
from tests.support.macho.machosmall import Small

ARM = Small(machines.CPU_ARM64, subtype=2).built()
PPC = Small(machines.CPU_PPC, bits=32, order=">").built()


def archs(path: Path, *, embedded: bool) -> list[str]:
    return [one.arch for one in Image.open(path, embedded=embedded).slices]


def test_an_elf_file_has_its_own_image_and_those_within(tmp_path: Path) -> None:
    file = tmp_path / "both"
    file.write_bytes(Path("/bin/true").read_bytes() + ARM + PPC)
    own = archs(file, embedded=False)
    assert len(own) == 1
    assert archs(file, embedded=True) == [*own, "arm64e", "ppc"]


def test_a_macho_file_has_its_own_image_and_those_within(tmp_path: Path) -> None:
    outer = Small(machines.CPU_X86_64)
    outer.size = 0x8000
    file = tmp_path / "outer"
    file.write_bytes(outer.built()[:0x4000] + ARM + outer.built()[0x4000 + len(ARM) :] + PPC)
    assert archs(file, embedded=False) == ["x86_64"]
    assert archs(file, embedded=True) == ["x86_64", "arm64e", "ppc"]


def test_a_file_without_images_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("text" * 1000)
    with pytest.raises(FormatError, match="no image in it"):
        Image.open(file, embedded=True)

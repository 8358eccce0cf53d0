# SPDX-License-Identifier: Apache-2.0
"""Images of emulated programs, by files of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from soscope.control.breakpoints.images import LoadedElf
from soscope.live.images.linkmaps import Linked
from tests.support.files.elffiles import built


def test_an_image_has_the_name_that_it_was_asked_for() -> None:
    linked = Linked(1, 0x1000, "/lib/libname.so.0", 0)
    image = LoadedElf.open(linked, sys.executable, is_main=False)
    assert image.name == "libname.so.0"
    assert image.path == sys.executable
    assert image.contains(image.start)
    assert not image.contains(image.end)
    program = LoadedElf.open(Linked(1, 0, "", 0), sys.executable, is_main=True)
    assert sys.executable.endswith(f"/{program.name}")


def test_addresses_in_code_are_told(tmp_path: Path) -> None:
    """Which nobody hooks: calls by them are seen nowhere."""
    source = "int getppid(void), (*also)(void); int call(void) { return getppid(); }"
    words = ["-fno-pic", "-mcmodel=large", "-shared", "-Wl,-z,notext"]
    path = built(tmp_path, "code", source, *words)
    image = LoadedElf.open(Linked(1, 0x1000, str(path), 0), str(path), is_main=False)
    arch = image.elf.header.arch if image.elf.header else None
    assert arch is not None
    assert ("getppid", True) in [(slot.symbol, slot.is_code) for slot in image.slots(arch)]

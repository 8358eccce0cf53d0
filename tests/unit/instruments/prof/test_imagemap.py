# SPDX-License-Identifier: Apache-2.0
"""Images of a process that is sampled: what the kernel tells of files that are damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.entry.perf import MapEvent
from soscope.instruments.prof.sampling.unwind import ImageMap
from tests.support.files.elffiles import built


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_file_that_has_been_cut_ends_no_sampling(is_whole: bool, tmp_path: Path) -> None:
    """Nothing maps it any more when the kernel's word is read."""
    words = ("-shared", "-fPIC", "-Wl,--build-id=none")
    path = built(tmp_path, "libcut.so", "int f(int n) { return n + 1; }", *words)
    segments = ElfImage.from_source(BufferSource(path.read_bytes())).segments
    (code,) = (each for each in segments if each.type == c.PT_LOAD and each.flags & c.PF_X)
    (frames,) = (each for each in segments if each.type == c.PT_GNU_EH_FRAME)
    if not is_whole:
        os.truncate(path, frames.offset + 4)
    start = 0x1234_0000_0000
    event = MapEvent(os.getpid(), start, start + 0x1000, code.offset, path.stat().st_ino, str(path))
    images = ImageMap(os.getpid())
    try:
        images.mapped(event)
        there = images.at(start + 8)
        assert there is not None
        assert there.path == str(path)
    finally:
        images.close()

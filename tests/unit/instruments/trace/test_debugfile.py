# SPDX-License-Identifier: Apache-2.0
"""The debug information of a file, all sections of which share one limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.instruments.trace import described
from tests.support.targets import build


@pytest.mark.parametrize("words", ["-g", "-g -gz=zlib"])
def test_sections_share_a_limit(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build.made(
        {"f.c": "int f(int a) { return a; }\n"}, f"gcc {words} -shared -fPIC f.c -o f.so"
    )
    path = folder / "f.so"
    image = _image(path)
    found = described.entries_of(image, str(path))
    assert found is not None
    monkeypatch.setattr(described, "_MOST", len(found[0].info) + 1)
    assert described.entries_of(image, str(path)) is None


def _image(path: Path) -> ElfImage:
    return ElfImage.from_source(BufferSource(path.read_bytes(), str(path)))

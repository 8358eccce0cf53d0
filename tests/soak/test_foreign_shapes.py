# SPDX-License-Identifier: Apache-2.0
"""No call of a program for another processor is missed without a word, whatever its linker made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.shapes import PROCESSORS, SHAPES, cell
from tests.support.machines.crossed import TRIPLETS

pytestmark = [pytest.mark.soak, pytest.mark.shares]
_CELLS = [
    (arch, shape)
    for arch in TRIPLETS
    for shape, (_, only) in SHAPES.items()
    if not only or arch in only
]


@pytest.mark.parametrize(("arch", "shape"), _CELLS)
def test_each_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str, shape: str) -> None:
    if shape in PROCESSORS:
        monkeypatch.setenv("QEMU_CPU", PROCESSORS[shape])
    text, is_fine = cell(tmp_path, arch, shape)
    assert is_fine, text

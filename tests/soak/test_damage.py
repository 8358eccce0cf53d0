# SPDX-License-Identifier: Apache-2.0
"""Thousands of damaged copies of real files and of made ones, for each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.files import damage
from tests.support.macho import machofiles
from tests.support.macho.machomade import NAMES, made

pytestmark = pytest.mark.soak

COPIES = 3000
_MOST = 2 << 20  # bytes: a damaged copy of it is written out as a whole


@pytest.mark.parametrize("reader", ["elf_map", "printed"])
def test_elf(reader: str) -> None:
    folders = [Path("/usr/bin"), Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib32")]
    files = [
        path
        for folder in folders
        for path in sorted(folder.glob("*"))[:: 29 if folder.name == "bin" else 17]
        if path.is_file() and path.stat().st_size < _MOST
    ]
    files = [path for path in files if path.read_bytes()[:4] == b"\x7fELF"][:60]
    assert len(files) > 20
    # 32 times the size: what other files say of their symbols is kept, too.
    said = damage.check(f"tests.support.truth.readers:{reader}", files, COPIES, limit=32)
    print(said)
    assert said.total() == COPIES


@pytest.mark.parametrize("reader", ["macho_map", "printed"])
def test_macho_made(reader: str, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(made(name).data)
    files = [tmp_path / name for name in NAMES]
    said = damage.check(f"tests.support.truth.readers:{reader}", files, COPIES)
    print(said)
    assert said.total() == COPIES


def test_calls_in_macho_made(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(made(name).data)
    files = [tmp_path / name for name in NAMES]
    said = damage.check("tests.support.truth.readers:explained", files, COPIES)
    print(said)
    assert said.total() == COPIES


def test_macho_of_wheels(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for wheel in machofiles.wheels():
        for number, path in enumerate(machofiles.images(wheel, tmp_path)):
            if number % 5 == 0 and path.stat().st_size < _MOST:
                (kept / f"{wheel.stem}-{path.name}").write_bytes(path.read_bytes())
    files = sorted(kept.iterdir())
    assert len(files) > 10
    said = damage.check("tests.support.truth.readers:macho_map", files, COPIES)
    print(said)
    assert said.total() == COPIES

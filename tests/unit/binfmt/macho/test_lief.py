# SPDX-License-Identifier: Apache-2.0
"""A second opinion: LIEF reads the same symbols of stubs and the same binds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.macho import machoshapes as shapes
from tests.support.macho.machofiles import SELECTORS, lld
from tests.support.macho.machomade import NAMES, made
from tests.support.truth.machopeer import Compared, compare

FLAGS = ("-fixup_chains", "-no_fixup_chains")


@pytest.mark.parametrize("name", NAMES)
def test_made(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(made(name).data)
    compared = Compared()
    compare(path, compared)
    assert compared.differences == []
    assert compared.wrong_helpers == []
    assert compared.counts["stubs"] == sum(row.stub is not None for row in made(name).rows)
    assert compared.counts["objc stubs"] == len(made(name).selectors)


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
@pytest.mark.parametrize("flag", FLAGS)
def test_lld(flag: str, arch: str, tmp_path: Path) -> None:
    compared = Compared()
    compare(lld(tmp_path, arch, flag), compared)
    assert compared.differences == []
    assert compared.wrong_helpers == []
    assert compared.counts["stubs"] == 7
    assert compared.counts["binds"] >= 8
    assert bool(compared.counts["helpers"]) == (flag == "-no_fixup_chains")


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("size", ["fast", "small"])
def test_lld_objc(size: str, flag: str, arch: str, tmp_path: Path) -> None:
    compared = Compared()
    compare(lld(tmp_path, arch, flag, f"-objc_stubs_{size}", objc=True), compared)
    assert compared.differences == []
    assert compared.counts["selectors"] == len(SELECTORS)


@pytest.mark.parametrize("arch", ["x86_64", "arm64", "i386"])
def test_helpers_of_a_faulty_linker(arch: str, tmp_path: Path) -> None:
    wanted = shapes.dyld_info(arch, lazy_offset=0)
    path = tmp_path / arch
    path.write_bytes(wanted.data)
    compared = Compared()
    compare(path, compared)
    lazy = [row for row in wanted.rows if row.helper is not None]
    # The first record of all is at 0.
    assert len(compared.wrong_helpers) == len(lazy) - 1
    assert compared.differences == []

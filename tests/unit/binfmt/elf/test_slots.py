# SPDX-License-Identifier: Apache-2.0
"""Slot relocations and properties: what readelf says of the same files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.binfmt.elf import sections
from soscope.binfmt.elf.slots import slot_relocations
from soscope.linker.library import open_image
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.matrix import Cell

CELLS = [
    Cell(),
    Cell(binding="now"),
    Cell(binding="no-plt", pie="nopie"),
    Cell(binding="ibt"),
    Cell(linker="lld"),
    Cell(linker="gold"),
    Cell(linker="mold"),
]


def expected(path: Path) -> list[tuple[int, str, str]]:
    text = run([need("readelf"), "-rW", str(path)]).stdout
    pattern = r"^([0-9a-f]+)\s+[0-9a-f]+ R_X86_64_(JUMP_SLO\w*|GLOB_DAT)\s+\S+\s+(\S+)"
    rows = re.findall(pattern, text, re.MULTILINE)
    return sorted((int(addr, 16), kind[:7], name.split("@")[0]) for addr, kind, name in rows)


def found(path: Path) -> list[tuple[int, str, str]]:
    image = open_image(str(path))
    names = {symbol.index: symbol.name for symbol in image.symbols}
    return sorted(
        (
            one.vaddr,
            "JUMP_SL" if one.is_call else "GLOB_DA",
            names[one.symbol],
        )
        for one in slot_relocations(image)
    )


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_slots_are_those_that_readelf_lists(cell: Cell) -> None:
    if not need(cell.linker if cell.linker == "mold" else f"ld.{cell.linker}"):
        return
    program = build.program("calls", cell)
    for path in (program, *program.parent.glob("*.so")):
        assert found(path) == expected(path)


@pytest.mark.parametrize("name", ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/python3"])
def test_slots_of_the_system_are_those_that_readelf_lists(name: str) -> None:
    path = Path(need(name))
    assert found(path) == expected(path) != []


@pytest.mark.parametrize("binding", ["lazy", "ibt"])
def test_features_are_those_that_readelf_names(binding: str) -> None:
    program = build.program("calls", Cell(binding=binding))
    said = run([need("readelf"), "-nW", str(program)]).stdout
    has = sections.features(open_image(str(program)))
    assert ("IBT" in has) == bool(re.search(r"x86 feature:.*IBT", said))
    assert ("SHSTK" in has) == bool(re.search(r"x86 feature:.*SHSTK", said))

# SPDX-License-Identifier: Apache-2.0
"""Entries of DWARF are found by name as pyelftools reads them, and damage is never more."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from soscope.binfmt.dwarf import entries as d
from soscope.binfmt.dwarf.entries import DwarfEntry, Entries, EntryError
from soscope.binfmt.search import places_of, places_of_many
from soscope.prototypes import load
from soscope.prototypes.fromdwarf import CWriter
from tests.support.machines.tools import need
from tests.support.targets.build import TARGETS
from tests.support.time.patience import limit

pytestmark = pytest.mark.slow

elffile = pytest.importorskip("elftools.elf.elffile")

SECTIONS = (".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets")


def contents(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        elf = elffile.ELFFile(file)
        sections = [elf.get_section_by_name(name) for name in SECTIONS]
        return [b"" if each is None else each.data() for each in sections]


def truth(path: Path) -> dict[str, tuple[int, int]]:
    """Return where pyelftools sees each function, and how many parameters it has."""
    known = {}
    with path.open("rb") as file:
        for unit in elffile.ELFFile(file).get_dwarf_info().iter_CUs():
            for entry in unit.get_top_DIE().iter_children():
                if entry.tag == "DW_TAG_subprogram" and "DW_AT_name" in entry.attributes:
                    tags = [child.tag for child in entry.iter_children()]
                    count = tags.count("DW_TAG_formal_parameter")
                    known[entry.attributes["DW_AT_name"].value.decode()] = (entry.offset, count)
    return known


@pytest.fixture(
    scope="module",
    params=[
        "gcc -gdwarf-5 -O1",
        "gcc -gdwarf-4 -O0",
        "gcc -gdwarf-5 -O2 -gz",
        "clang -gdwarf-5 -O1",
    ],
)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(request.param.split()[0])
    folder = tmp_path_factory.mktemp("dwarf")
    command = f"{request.param} -shared -fPIC {TARGETS / 'own' / 'lib_own_types.c'} -o own.so"
    subprocess.run(command.split(), cwd=folder, check=True, timeout=limit())
    return folder / "own.so"


def found(entries: Entries, names: set[str]) -> dict[str, list[DwarfEntry]]:
    functions = entries.functions({name.encode() for name in names})
    return {name.decode(): described for name, described in functions.items()}


def test_every_function_is_found_where_it_is(library: Path) -> None:
    entries = Entries(*contents(library))
    known = truth(library)
    names = {name for name in known if len(name) > 3}
    assert len(names) > 20
    for name, described in found(entries, names).items():
        assert [each.at for each in described] == [known[name][0]]
        children = entries.children(described[0])
        assert sum(child.tag == d.TAG_PARAMETER for child in children) == known[name][1]
    assert found(entries, names).keys() == names
    # in one walk over many, too
    needles = {each.to_bytes(4, "little"): b"" for each in range(1, 2000)}
    assert places_of(entries.info, needles) == places_of_many(entries.info, needles)
    assert found(entries, {"own", "x", "own_missing", "point"}) == {}


def test_damage_is_an_error_or_nothing(library: Path) -> None:
    whole = contents(library)
    known = sorted(truth(library))
    preamble = load().preamble
    chance = random.Random(7)
    for _ in range(40):
        names = set(chance.sample(known, 5))  # each costs a look around all places of its name
        damaged = [bytearray(each) for each in whole]
        for _ in range(chance.randrange(1, 8)):
            section = damaged[chance.randrange(3)]
            at = chance.randrange(len(section))
            size = chance.randrange(1, 30)
            section[at : at + size] = bytes(chance.randrange(256) for _ in range(size))
        if chance.random() < 0.2:
            del damaged[0][chance.randrange(len(damaged[0])) :]
        try:
            entries = Entries(*map(bytes, damaged))
            writer = CWriter(entries, preamble)
            described = found(entries, names)
            for name, those in described.items():
                for each in those:
                    writer.add(name, each)
        except EntryError:
            continue  # the one error that damage may raise
        assert described.keys() <= names

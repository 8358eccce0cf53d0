# SPDX-License-Identifier: Apache-2.0
"""Declarations of one version of a function, beside those of all others of its name."""

from __future__ import annotations

import pytest

from soscope.model.image import TracedSlot
from soscope.prototypes import load
from soscope.prototypes.catalog import Prototypes
from soscope.prototypes.sources import USER, SourceText
from soscope.wire import layout
from tests.unit.prototypes.calls import at_entry, slot

OLD, NEW = "GLIBC_2.3.3", "GLIBC_2.3.4"


@pytest.fixture
def prototypes() -> Prototypes:
    return load()


def of_version(symbol: str, version: str) -> TracedSlot:
    known = slot(symbol)
    known.version = version
    return known


def arguments(prototypes: Prototypes, symbol: str, version: str) -> list[str]:
    captured = at_entry(7, 128, 0x5000)
    shown = prototypes.format_call(of_version(symbol, version), captured, 32)
    return [each.text for each in shown]


def names(prototypes: Prototypes) -> set[bytes]:
    section = prototypes.function_table([], entry_only=False, want_arguments=True)
    bits, cells, *_ = layout.FUNCTION_TABLE.struct.unpack_from(section)
    places = [
        int.from_bytes(section[at + 4 : at + 8], "little")
        for at in range(cells, cells + (layout.FUNCTION.size << bits), layout.FUNCTION.size)
    ]
    return {section[at : section.index(0, at)] for at in places if at}


def add(prototypes: Prototypes, text: str) -> None:
    prototypes.add(SourceText(USER, "own.h", text))


def test_each_version_has_its_own_arguments(prototypes: Prototypes) -> None:
    assert arguments(prototypes, "sched_getaffinity", OLD) == ["7", "0x80"]
    for version in (NEW, ""):
        assert arguments(prototypes, "sched_getaffinity", version) == ["7", "128", "0x5000"]


def test_whoever_names_no_version_means_all_of_them(prototypes: Prototypes) -> None:
    assert b"sched_getaffinity@GLIBC_2.3.3" in names(prototypes)
    add(prototypes, "int sched_getaffinity(int all HEX);")
    assert arguments(prototypes, "sched_getaffinity", OLD) == ["0x7"]
    assert names(prototypes) & {b"sched_getaffinity@GLIBC_2.3.3", b"sched_getaffinity"} == {
        b"sched_getaffinity"
    }


def test_a_header_may_declare_versions_of_its_own(prototypes: Prototypes) -> None:
    text = """int own(int a) SYMBOL_VERSION(OWN_1);
              int own(long a, long b) SYMBOL_VERSION(OWN_1.2) ALSO(other);"""
    add(prototypes, text)
    assert arguments(prototypes, "own", "OWN_1") == ["7"]
    assert arguments(prototypes, "own", "OWN_1.2") == ["7", "128"]
    assert arguments(prototypes, "other", "OWN_1.2") == ["7", "128"]
    assert arguments(prototypes, "own", "OWN_2")[-1].endswith(" ?")
    declared = {b"own@OWN_1", b"own@OWN_1.2", b"other@OWN_1.2"}
    assert {name for name in names(prototypes) if name.startswith((b"own", b"other@"))} == declared
    source = prototypes.source("own@OWN_1")
    assert source is not None
    assert source[0] == USER

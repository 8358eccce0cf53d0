# SPDX-License-Identifier: Apache-2.0
"""Numbers of patterns, where several instruments have theirs in one section."""

from __future__ import annotations

import os

from soscope.prototypes import load
from soscope.prototypes.catalog import TREATMENT_FAMILIES
from soscope.select.patterns import Automaton, compile_bre
from soscope.wire import layout
from soscope.wire.plan import renumber_patterns

MEMBERS = {"libc": "libc.so.6", "zlib": "libz.so.1"}


def test_families_keep_their_patterns_behind_those_of_another_instrument() -> None:
    mine: list[Automaton] = []
    table = load().function_table(mine, entry_only=False, want_arguments=True)
    others = [compile_bre("another")] * 7
    _, moved = renumber_patterns(b"", table, len(others))
    patterns = [*others, *mine]
    at = layout.FUNCTION_TABLE.offset("family")
    for family, number in TREATMENT_FAMILIES.items():
        place = at + 2 * number
        pattern = patterns[int.from_bytes(moved[place : place + 2], "little")]
        assert pattern.matches(os.fsencode(MEMBERS[family]))

# SPDX-License-Identifier: Apache-2.0
"""How much room a program gets, by the limits that it has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from soscope.control.blocks import Room
from soscope.control.settings import RING_INSTRUMENTS
from soscope.wire import layout


@contextmanager
def limited(limit: str) -> Iterator[int]:
    """Have a process with a limit of the shell's, and give its pid."""
    words = ["sh", "-c", f"ulimit -S {limit} && echo && read line"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process.pid


@pytest.mark.parametrize(
    "mode", [layout.INSTRUMENT_COUNT, layout.INSTRUMENT_STATS, layout.INSTRUMENT_TRACE]
)
def test_little_address_space_gets_little_room(mode: int) -> None:
    with limited("-v unlimited") as pid:
        plenty = Room([mode], pid, needs_ring=mode in RING_INSTRUMENTS)
    with limited("-v 400000") as pid:
        little = Room([mode], pid, needs_ring=mode in RING_INSTRUMENTS)
    assert plenty.slot_places == layout.SLOT_PLACES
    assert little.slot_places == 0
    assert little.strings_size < plenty.strings_size
    assert little.ready_arrays <= 2

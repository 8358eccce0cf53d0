# SPDX-License-Identifier: Apache-2.0
"""What a drainer finds that the program has written over, and what it takes for right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from soscope import recording
from soscope.recording.spoiled import Chunks
from soscope.wire import layout
from tests.unit.recording.test_drain import Target


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    target.calls(5)
    target.drainer.drain()
    yield target
    target.drainer.close()
    target.block.close()


def spoiled(target: Target) -> int:
    target.drainer.finish()
    return target.drainer.spoiled


def test_nothing_is_spoiled_by_itself(target: Target) -> None:
    target.calls(2000)
    target.drainer.drain()
    assert spoiled(target) == 0


def test_a_chunk_that_nobody_has_used_is_seen(target: Target) -> None:
    other = target.agent.thread(100, 101)
    assert other._take()
    other.give_back()
    target.calls(3)
    assert spoiled(target) == 0


def test_a_chunk_that_somebody_else_has_freed(target: Target) -> None:
    target.block.set_chunk_state(target.thread.chunk, layout.CHUNK_FREE)
    assert spoiled(target)


def test_a_chunk_that_was_never_given_back(target: Target) -> None:
    target.block.set_chunk_state(target.thread.chunk, layout.CHUNK_FULL)
    assert spoiled(target)


def test_a_number_that_was_given_out_and_is_nowhere(target: Target) -> None:
    target.block.ring_seq += 1
    assert spoiled(target) == 1


def test_a_header_that_changes(target: Target) -> None:
    chunks = Chunks(target.block)
    with chunks.row(target.thread.chunk, 1) as row:
        row[layout.CHUNK.offset("tid")] ^= 1
    chunks.close()
    target.calls(1)
    assert spoiled(target)


@pytest.mark.parametrize("field", ["tsc_start", "slots", "agent_base", "wire_version"])
def test_words_that_stay_as_they_are(field: str, target: Target) -> None:
    at, size, _ = layout.CONTROL.fields[field]
    target.block.mapping[at : at + size] = bytes(size)
    assert spoiled(target)


@pytest.mark.parametrize("is_hurried", [False, True])
def test_of_many_units_the_types_are_looked_at(
    is_hurried: bool, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording.spoiled, "_FEW", 0)
    target.calls(2000)
    chunks = Chunks(target.block)
    with chunks.row(target.thread.chunk - 1, 1) as row:
        row[-layout.UNIT :] = b"\xff" * layout.UNIT
    chunks.close()
    if is_hurried:
        target.block.spare_chunks = target.block.chunks - 1
    target.drainer.drain()
    assert spoiled(target) == 1


def test_a_name_that_changes(target: Target) -> None:
    with target.block.view(layout.SEC_STRINGS, 1, 2) as name:
        name[0] ^= 1
    assert spoiled(target) == 1

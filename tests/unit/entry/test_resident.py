# SPDX-License-Identifier: Apache-2.0
"""What is put back, in which order, and where return addresses are found."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

from soscope.entry.agent.resident import Change, Taken, UndoPlan, count_staying, words_between
from soscope.wire import layout

if TYPE_CHECKING:
    from soscope.entry.ptrace import RemoteMemory


def test_words_are_found_by_their_upper_bytes() -> None:
    chance = random.Random(1)
    low, high = 0x7F12_33F0_0000, 0x7F12_3420_0000  # of two different upper halves
    words = [chance.randrange(1 << 64) for _ in range(2000)]
    for at in range(0, 2000, 37):
        words[at] = chance.randrange(low, high)
    words[5], words[6], words[7], words[8] = low, high - 1, high, low - 1
    data = b"".join(word.to_bytes(8, "little") for word in words)
    found = dict(words_between(data, low, high))
    assert found == {8 * at: word for at, word in enumerate(words) if low <= word < high}


def test_words_that_are_not_aligned_are_none() -> None:
    word = 0x7F12_3400_1234
    data = bytes(3) + word.to_bytes(8, "little") + bytes(5)
    assert list(words_between(data, word, word + 1)) == []


BASE = 0x7F00_0000_0000


class Memory:
    """Memory of one mapping, as far as a plan needs it."""

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.data = bytearray(size)

    def read(self, addr: int, size: int) -> bytes:
        return bytes(self.data[addr - self.start : addr - self.start + size])

    def write(self, addr: int, data: bytes) -> None:
        self.data[addr - self.start : addr - self.start + len(data)] = data


def plan_of(changes: list[Change], cells: int = 100) -> UndoPlan:
    journal = b"".join(layout.CHANGE.struct.pack(*change, 0, 0, 0) for change in changes)
    return UndoPlan(journal, BASE, cells)


def restored(memory: Memory, changes: list[Change]) -> Taken:
    taken = Taken()
    for page in plan_of(changes).pages:
        page.restore(cast("RemoteMemory", memory), taken)
    return taken


def test_every_word_is_as_before_whatever_was_changed_in_which_order() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        memory = Memory(0x1000, 0x4000)
        memory.data[:] = chance.randbytes(0x4000)
        before = bytes(memory.data)
        changes: list[Change] = []
        for _ in range(chance.randrange(1, 60)):
            size = chance.choice((8, 8, 8, 4))
            at = chance.randrange(0, 0x3FF0)
            if size == 8 and chance.random() < 0.9:
                at &= -8
            elif chance.random() < 0.3:
                at = 0x1000 * chance.randrange(1, 4) - chance.randrange(1, size)  # across a page
            # Only the same word may be changed again: others never overlap.
            if any(
                abs(0x1000 + at - one[0]) < 8 and (0x1000 + at, size) != (one[0], one[3])
                for one in changes
            ):
                continue
            old = memory.read(0x1000 + at, size)
            new = chance.randbytes(size)
            memory.write(0x1000 + at, new)
            old_value, new_value = (int.from_bytes(part, "little") for part in (old, new))
            changes.append((0x1000 + at, old_value, new_value, size))
        taken = restored(memory, changes)
        assert bytes(memory.data) == before, seed
        assert taken.restored == len(changes)
        assert not taken.left


def test_a_word_that_became_again_what_it_was_made_first() -> None:
    memory = Memory(0x1000, 0x1000)
    memory.write(0x1000, (1).to_bytes(8, "little"))
    changes: list[Change] = [(0x1000, 0, 1, 8), (0x1000, 1, 2, 8), (0x1000, 2, 1, 8)]
    taken = restored(memory, changes)
    assert (taken.restored, taken.left) == (3, [])
    assert memory.read(0x1000, 8) == bytes(8)


def test_what_somebody_else_has_changed_stays_and_is_said() -> None:
    memory = Memory(0x1000, 0x1000)
    changes = [(0x1000 + 8 * at, at, at + 100, 8) for at in range(10)]
    for addr, _, new, _ in changes:
        memory.write(addr, new.to_bytes(8, "little"))
    memory.write(0x1018, (7777).to_bytes(8, "little"))
    memory.write(0x1020, (4).to_bytes(8, "little"))  # has its old value already
    taken = restored(memory, changes)
    assert taken.left == [(0x1018, 7777)]
    assert taken.restored == 8
    words = [int.from_bytes(memory.read(0x1000 + 8 * at, 8), "little") for at in range(10)]
    assert words == [0, 1, 2, 7777, 4, 5, 6, 7, 8, 9]


def test_a_mapping_that_is_gone_is_no_error() -> None:
    taken = restored(Memory(0x1000, 0), [(0x1000, 1, 2, 8)])
    assert (taken.restored, taken.left) == (0, [])


def test_what_an_image_that_is_gone_had_is_nothing() -> None:
    assert plan_of([(0, 1, 2, 8)]).pages == []


def test_words_by_which_unwinders_ask_are_kept_apart() -> None:
    entry = BASE + layout.BLOB_ENTRIES
    changes = [
        (0x1000, 1, BASE + 0x500, 8),  # the agent's own function
        (0x1008, 1, entry, 8),  # the first slot's trampoline
        (0x1010, 1, entry + 16 * 99, 8),  # the last one's
        (0x1018, 1, entry + 16 * 100, 8),  # a cell of no slot
        (0x1020, 1, 0x1234, 8),
    ]
    plan = plan_of(changes)
    [page], [asked] = plan.pages, plan.asked
    assert plan.asked_count == 2
    assert [page.start + 8 * at for at in page.indexes] == [0x1008, 0x1010, 0x1020]
    assert [asked.start + 8 * at for at in asked.indexes] == [0x1000, 0x1018]


STANDS, LOADER = layout.CHANGE_STANDS, layout.CHANGE_LOADER


def journal_of(changes: list[tuple[int, int, int, int, int]]) -> bytes:
    """Make a journal of (address, before, after, flags, patch)."""
    rows = [(addr, old, new, 8, flags, patch, 0) for addr, old, new, flags, patch in changes]
    return b"".join(layout.CHANGE.struct.pack(*row) for row in rows)


def test_changes_of_patches_stay_as_long_as_they_stand() -> None:
    """A patch's slot with a trace on top, another patch's, the loader's function, a plain slot."""
    memory = Memory(0x1000, 0x1000)
    changes = [
        (0x1100, 0, 90, LOADER, 0),
        (0x1000, 1, 11, STANDS, 0),
        (0x1008, 2, 12, STANDS, 5),
        (0x1000, 11, 21, 0, 0),
        (0x1010, 3, 23, 0, 0),
        (0, 4, 14, STANDS, 5),  # its image is gone
    ]
    journal = journal_of(changes)

    def words_after(standing: frozenset[int]) -> list[int]:
        for addr, _, new, _, _ in changes:
            if addr:
                memory.write(addr, new.to_bytes(8, "little"))
        plan = UndoPlan(journal, BASE, 100, standing)
        for page in plan.pages:
            page.restore(cast("RemoteMemory", memory), Taken())
        assert len(plan.kept) == count_staying(journal, standing) * layout.CHANGE.size
        kept.append(plan.kept)
        return [
            int.from_bytes(memory.read(addr, 8), "little")
            for addr in (0x1000, 0x1008, 0x1010, 0x1100)
        ]

    kept: list[bytes] = []
    assert words_after(frozenset((0, 5))) == [11, 12, 3, 90]
    assert words_after(frozenset((5,))) == [1, 12, 3, 90]
    assert words_after(frozenset()) == [1, 2, 3, 0]
    assert kept == [journal_of(changes[:3]), journal_of([changes[0], changes[2]]), b""]
    # a patch that has no slot yet still wants to hear of images
    assert words_after(frozenset((7,)))[3] == 90

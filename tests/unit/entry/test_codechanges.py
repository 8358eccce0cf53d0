# SPDX-License-Identifier: Apache-2.0
"""The journal's changes of code are written, whatever has become of the images before them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from soscope.entry.agent.changes import CodeChanges
from soscope.wire import layout

CODE = 0  # the code of all images, a byte each
JOURNAL = 0x1000
NOP, CALL = 0x90, 0xE8


class Process:
    """A process whose memory is `content`, with the agent's journal in it."""

    def __init__(self) -> None:
        self.content = bytearray([NOP] * JOURNAL + [0] * 64 * layout.CHANGE.size)
        self.fields = {"changes": JOURNAL, "change_count": 0}
        self.memory = self
        self.threads = SimpleNamespace(registers=dict)

    def look(self) -> None:
        """The fields are always those of now."""

    def read(self, addr: int, size: int) -> bytes:
        return bytes(self.content[addr : addr + size])

    def write(self, addr: int, data: bytes) -> None:
        self.content[addr : addr + len(data)] = data

    def note(self, *addrs: int) -> None:
        """Take down that bytes become calls."""
        for addr in addrs:
            words = (addr, NOP, CALL, 1 | layout.CHANGE_CODE << 8)
            entry = b"".join(word.to_bytes(8, "little") for word in words)
            assert len(entry) == layout.CHANGE.size
            self.write(JOURNAL + self.fields["change_count"] * len(entry), entry)
            self.fields["change_count"] += 1

    def written(self) -> list[int]:
        return [at for at in range(JOURNAL) if self.content[at] == CALL]


def watched(process: Process) -> CodeChanges:
    return CodeChanges(cast(Any, process), cast(Any, process))


def test_all_is_written_turn_by_turn() -> None:
    process = Process()
    changes = watched(process)
    process.note(16, 17)
    changes.apply()
    process.note(40)
    changes.apply()
    changes.apply()
    assert process.written() == [16, 17, 40]


def test_an_image_that_goes_leaves_its_places_to_another() -> None:
    """As many changes as there were, or more, are those of another image."""
    for new in ([50, 51], [50, 51, 52]):
        process = Process()
        changes = watched(process)
        process.note(16, 30, 31)
        changes.apply()
        process.fields["change_count"] = 1  # as the agent does when the last image is gone
        process.note(*new)
        changes.apply()
        assert process.written() == [16, 30, 31, *new]

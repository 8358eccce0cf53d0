# SPDX-License-Identifier: Apache-2.0
"""Signals that a program has because of us, and is not to get when it is let go."""

from __future__ import annotations

from soscope.entry.remote.files import RemoteFiles
from soscope.proc import status

SIGINT, SIGTRAP, SIGSEGV = 2, 5, 11  # the protocol's numbers
_SIGNALS = 151


def without_ours(*, programs: bool) -> list[bytes]:
    """Return the packets that say so; none where the stub does not know them (`programs`).

    Of a fault of its own the program hears again, as it goes on at the same instruction.
    """
    if not programs:
        return []
    passed = sorted(set(range(1, _SIGNALS)) - {SIGINT, SIGTRAP, SIGSEGV})
    return [b"QProgramSignals:" + ";".join(f"{number:x}" for number in passed).encode()]


def is_interrupted(files: RemoteFiles, pid: int) -> bool:
    """Return whether a process takes a SIGINT as soon as it runs, if its system tells that.

    One that blocks it has a use for it, or takes it when it does so no more: that is left to it.
    """
    text = files.read(f"/proc/{pid}/status")
    fields = status.fields_of((text or b"").decode("utf-8", "replace"))
    pending = int(fields.get("ShdPnd", "0"), 16) & ~int(fields.get("SigBlk", "0"), 16)
    return bool(pending >> SIGINT - 1 & 1)

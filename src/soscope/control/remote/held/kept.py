# SPDX-License-Identifier: Apache-2.0
"""Keep signals that soscope has caused from the program when it is detached."""

from __future__ import annotations

from soscope.entry.remote.stub import RemoteFiles
from soscope.proc import status

SIGINT, SIGTRAP, SIGSEGV = 2, 5, 11  # numbers of the protocol
_SIGNALS = 151


def without_ours(*, programs: bool) -> list[bytes]:
    """Return the packets that keep soscope's signals from the program.

    There are none if the stub does not accept them (`programs`). A fault of the program's own
    comes again, because the program goes on at the same instruction.
    """
    if not programs:
        return []
    passed = sorted(set(range(1, _SIGNALS)) - {SIGINT, SIGTRAP, SIGSEGV})
    return [b"QProgramSignals:" + ";".join(f"{number:x}" for number in passed).encode()]


def is_interrupted(files: RemoteFiles, pid: int) -> bool:
    """Return whether a SIGINT is pending for a process and not blocked, if its /proc tells that.

    A process that blocks the signal has a use for it, or takes it when it unblocks it. That is
    left to the process.
    """
    text = files.read(f"/proc/{pid}/status")
    fields = status.fields_of((text or b"").decode("utf-8", "replace"))
    pending = int(fields.get("ShdPnd", "0"), 16) & ~int(fields.get("SigBlk", "0"), 16)
    return bool(pending >> SIGINT - 1 & 1)

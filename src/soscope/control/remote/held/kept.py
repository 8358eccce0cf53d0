# SPDX-License-Identifier: Apache-2.0
"""Signals that a program has because of us, and is not to get when it is let go."""

from __future__ import annotations

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

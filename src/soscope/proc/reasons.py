# SPDX-License-Identifier: Apache-2.0
"""Why a program runs without the agent, in the words that reports use."""

from __future__ import annotations

STATIC = "static"
SETUID = "setuid"
SETUID_LOST = "setuid, traced"
FOREIGN = "foreign architecture"
UNREADABLE = "not readable"
SECCOMP = "seccomp filter"
UNKNOWN_LOADER = "unknown loader"
BY_LOADER = "started by its loader"
LOCKS = "mlockall"
NOT_FOLLOWED = "not followed"
LET_GO = "let go of"
ENDED = "ended while it was loaded"
NO_PTRACE = "no ptrace"  # ": " and the system's reason follow


class Refused(Exception):  # noqa: N818  it is an answer, not a mistake
    """The agent cannot go into this program; it runs on as if nothing had happened.

    `reason` is one of this module's words, or begins with one.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

# SPDX-License-Identifier: Apache-2.0
"""Why a program runs without the agent, in the words that reports print."""

from __future__ import annotations

import os

STATIC = "static"
VALGRIND = "valgrind"
SETUID = "setuid"
SETUID_LOST = "setuid, traced"
FOREIGN = "foreign architecture"
UNREADABLE = "not readable"
NO_AGENT = "no agent for this machine"
SECCOMP = "seccomp filter"
UNKNOWN_LOADER = "unknown loader"
BY_LOADER = "started by its loader"
LOCKS = "mlockall"
NOT_FOLLOWED = "not followed"
LET_GO = "let go of"
ENDED = "ended while it was loaded"
DAMAGED_LIST = "its list of libraries has no end"
MEDDLED = "somebody else has changed its shared memory"
NO_PTRACE = "no ptrace"  # followed by ": " and the system's reason

_SAID = {
    STATIC: "it is statically linked, so its calls go through no slots:"
    " strace shows its system calls, soscope prof run its functions by samples",
    VALGRIND: "valgrind runs a translation of its program, which soscope cannot go into",
    SETUID: "it gained privileges when it started",
    FOREIGN: "it is made for another architecture",
    NO_AGENT: "no agent is made for this machine",
    SECCOMP: "its seccomp filter has to be asked first; soscope trace -p does so",
    BY_LOADER: "it is a loader, and has started no program that can be seen",
    UNKNOWN_LOADER: "its loader is of an unknown kind",
    NOT_FOLLOWED: "what a command starts is followed with -f",
}

# reasons of programs whose functions are sampled all the same
NOT_HOOKED = {
    STATIC: "it is statically linked, so its calls go through no slots and are not counted:"
    " strace shows its system calls",
    SECCOMP: "its calls are not counted: its seccomp filter has to be asked first",
    UNKNOWN_LOADER: "its calls are not counted: its loader is of an unknown kind",
}


def static(path: str) -> str:
    """Return the reason why no function of the static program at `path` can be hooked."""
    # valgrind's tools are in a folder of this name, wherever valgrind is installed
    return VALGRIND if os.path.basename(os.path.dirname(path)) == VALGRIND else STATIC


class Refused(Exception):  # noqa: N818  it is an answer, not a mistake
    """The agent cannot be put into this program; the program runs on unchanged.

    `reason` is one of this module's constants, or begins with one.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def in_full(reason: str) -> str:
    """Return the reason of a refusal as a full sentence."""
    return _SAID.get(reason, reason)

# SPDX-License-Identifier: Apache-2.0
"""Why a program stands still or is gone: the stop replies of the remote protocol."""

from __future__ import annotations

from soscope.errors import RemoteError

SIGNAL, EXITED, KILLED = "signal", "exited", "killed"

# Numbers in the protocol are GDB's own, <gdb/signals.def>: those that differ from Linux'.
_TO_LINUX = {
    7: 7,  # SIGEMT: there is none
    10: 7,
    12: 31,
    16: 23,
    17: 19,
    18: 20,
    19: 18,
    20: 17,
    23: 29,
    29: 30,
    30: 10,
    31: 12,
    32: 30,
}
_FIRST_REALTIME, _LAST_REALTIME = 45, 75  # SIG33 to SIG63


class RemoteStop:
    """One stop. `kind` is SIGNAL, EXITED or KILLED; `number` the protocol's signal, or the status.

    `thread` is as the stub wrote it, "" where it named none; `facts` has what else it said.
    """

    __slots__ = ("facts", "kind", "number", "thread")

    def __init__(self, kind: str, number: int, thread: str, facts: dict[str, str]) -> None:
        self.kind = kind
        self.number = number
        self.thread = thread
        self.facts = facts

    @property
    def tid(self) -> int:
        """The thread's number, 0 where it is not known."""
        return tid_of(self.thread)


def tid_of(thread: str) -> int:
    """Return the number in a thread's name, 0 where it is not known."""
    try:
        return int(thread.rpartition(".")[2].lstrip("p") or "0", 16)
    except ValueError:
        return 0  # a stub may name threads as it likes


def process_of(thread: str) -> int:
    """Return the number of the process in a thread's name, 0 where threads alone are named."""
    process, dot, _ = thread.partition(".")
    try:
        return int(process.lstrip("p"), 16) if dot else 0
    except ValueError:
        return 0  # as above


def parse(packet: bytes) -> RemoteStop:
    """Return the stop that a packet tells of. Raises RemoteError where it is none."""
    text = packet.decode("ascii", "replace")
    kind = {"T": SIGNAL, "S": SIGNAL, "W": EXITED, "X": KILLED}.get(text[:1])
    try:
        if kind is None:
            raise ValueError
        if kind == SIGNAL:
            number, rest = int(text[1:3], 16), text[3:]
        else:
            value, _, rest = text[1:].partition(";")
            number = int(value, 16)
    except ValueError:
        raise RemoteError(f"the stub said '{text[:40]}' where a stop was due") from None
    facts = {
        name: value for name, _, value in (each.partition(":") for each in rest.split(";") if each)
    }
    return RemoteStop(kind, number, facts.get("thread", ""), facts)


def linux_signal(number: int) -> int:
    """Return what Linux calls the protocol's signal `number`."""
    if _FIRST_REALTIME <= number <= _LAST_REALTIME:
        return number - _FIRST_REALTIME + 33
    return _TO_LINUX.get(number, number)

# SPDX-License-Identifier: Apache-2.0
"""The stop replies of the remote protocol: why a program has stopped or ended."""

from __future__ import annotations

from soscope.errors import RemoteError

SIGNAL, EXITED, KILLED = "signal", "exited", "killed"

# The protocol's signal numbers are GDB's, <gdb/signals.def>. These differ from Linux's.
_TO_LINUX = {
    7: 7,  # SIGEMT, which Linux does not have
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
    """One stop. `kind` is SIGNAL, EXITED or KILLED.

    `number` is the protocol's signal number or the exit status. `thread` is the thread's name
    from the stub, "" if there was none. `facts` has the other fields of the packet.
    """

    __slots__ = ("facts", "kind", "number", "thread")

    def __init__(self, kind: str, number: int, thread: str, facts: dict[str, str]) -> None:
        self.kind = kind
        self.number = number
        self.thread = thread
        self.facts = facts

    @property
    def tid(self) -> int:
        """The thread's number, 0 if it is not known."""
        return tid_of(self.thread)


def tid_of(thread: str) -> int:
    """Return the number in a thread's name, 0 if it is not known."""
    try:
        return int(thread.rpartition(".")[2].lstrip("p") or "0", 16)
    except ValueError:
        return 0  # stubs choose thread names freely


def process_of(thread: str) -> int:
    """Return the number of the process in a thread's name, 0 if names have no process."""
    process, dot, _ = thread.partition(".")
    try:
        return int(process.lstrip("p"), 16) if dot else 0
    except ValueError:
        return 0  # the same as above


def parse(packet: bytes) -> RemoteStop:
    """Return the stop that a packet reports. Raises RemoteError if it is no stop reply."""
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
    """Return Linux's number of the protocol's signal `number`."""
    if _FIRST_REALTIME <= number <= _LAST_REALTIME:
        return number - _FIRST_REALTIME + 33
    return _TO_LINUX.get(number, number)

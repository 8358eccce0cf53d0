# SPDX-License-Identifier: Apache-2.0
"""Agents of `soscope trace` in this process, whose trampolines may be in the same slots.

Another process inserts and removes an agent while all threads are stopped and no thread holds the
loader's locks. This module only reads the agent's memory. It changes a word in the agent's list
of changes, or in a trampoline's data, by an atomic exchange.
"""

from __future__ import annotations

import os
from array import array

from soscope.entry.agent.resident import Resident, find
from soscope.entry.ptrace import RemoteMemory
from soscope.hooking.thunks import machine
from soscope.proc import maps
from soscope.wire import layout

_ORIGINAL = 8  # offset of the original function's address in a trampoline's data
_MOST = 16  # most trampolines of an agent behind one another


class Tracers:
    """The agents in this process. It is also a context manager."""

    def __init__(self) -> None:
        pid = int(os.readlink("/proc/self"))
        self._memory = RemoteMemory(pid)
        try:
            residents = find(self._memory, maps.read(pid))
            self.agents = [agent for agent in residents if agent.is_known]
        except BaseException:
            self._memory.close()
            raise

    def __enter__(self) -> Tracers:  # noqa: PYI034  typing is slow to import
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.close()

    def owner_of(self, value: int) -> Resident | None:
        """Return the agent whose entry trampoline or counter `value` is, None if there is none."""
        for agent in self.agents:
            if agent.leads_on(value):
                return agent
        return None

    def before(self, slot: int, trampoline: int) -> int | None:
        """Return the slot's value before an agent stored `trampoline` there, None if unknown."""
        agent = self.owner_of(trampoline)
        if agent is None:
            return None
        for _, before, after in self._changes(agent, slot):
            if after == trampoline:
                return before
        return None

    def stands(self, slot: int, trampoline: int) -> bool:
        """Return whether a trampoline may be put into a slot.

        Its agent must have recorded the change of the slot and must not be on its way out, so
        that the removal of the agent will restore the slot.
        """
        agent = self.owner_of(trampoline)
        is_known = agent is not None and self.before(slot, trampoline) is not None
        return is_known and agent is not None and not self._is_going(agent)

    def session(self, value: int) -> tuple[int, int]:
        """Return the address of the session count of a trampoline's agent, and the count."""
        agent = self.owner_of(value)
        assert agent is not None
        at = agent.base + layout.BLOB_DATA + layout.INSIDE.offset("sessions")
        return at, agent.fields["sessions"]

    def replace(self, slot: int, thunk: int, by: int) -> None:
        """Make agents that would put `thunk` back into a slot at their removal put `by` there."""
        field = layout.CHANGE.offset("before")
        for agent in self.agents:
            for at, before, _ in self._changes(agent, slot):
                if before == thunk:
                    machine().exchange(at + field, thunk, by)

    def bind(self, trampoline: int, unbound: int, definition: int) -> None:
        """Store the function in a trampoline's data, as the loader does for an unbound slot."""
        agent = self.owner_of(trampoline)
        value = trampoline
        for _ in range(_MOST):
            if agent is None or self.owner_of(value) is not agent:
                return
            at = value + layout.BLOB_DISTANCE + _ORIGINAL
            if machine().exchange(at, unbound, definition) == unbound:
                return
            value = self._memory.word(at)

    def _is_going(self, agent: Resident) -> bool:
        """Return whether an agent is being removed, or was removed."""
        agent.look()
        at = agent.fields["control"] + layout.CONTROL.offset("command")
        command = self._memory.read(at, 4)
        is_told = command == layout.COMMAND_STOP.to_bytes(4, "little")
        return not agent.is_hooked or is_told

    def _changes(self, agent: Resident, slot: int) -> list[tuple[int, int, int]]:
        """Return (address, old word, new word) of an agent's changes of a slot, newest first."""
        agent.look()
        fields = array("Q", agent.journal())
        words = layout.CHANGE.size // 8
        first, addrs = agent.fields["changes"], fields[::words]
        size = layout.CHANGE.size
        return [
            (first + at * size, fields[at * words + 1], fields[at * words + 2])
            for at in range(len(addrs) - 1, -1, -1)
            if addrs[at] == slot
        ]

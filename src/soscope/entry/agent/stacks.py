# SPDX-License-Identifier: Apache-2.0
"""Find return addresses that lead through the agent, on stacks and elsewhere in memory.

A hooked call that has not returned yet has the address of a return trampoline in place of its
caller's return address. That is the only difference. If the caller's return address is restored,
the call is as if it had never been hooked. Stacks that no thread is on (coroutines) are not
changed. So unwinders can do without the agent only if these have no such addresses.
"""

from __future__ import annotations

from collections.abc import Callable

from soscope.entry.agent.resident import Resident
from soscope.entry.agent.unwinding import Unwinders, words_between
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.entry.stop.stopping import Threads
from soscope.proc import maps
from soscope.proc import memory as pagemap
from soscope.wire import layout

_RED_ZONE = 128
_MOST_STACK = 256 << 20
_PIECE = 4 << 20
_MOST_MEMORY = 1 << 30  # bytes that are searched for coroutines


def _sites(agent: Resident) -> tuple[int, int]:
    return agent.base + layout.BLOB_SITES, agent.base + layout.BLOB_COUNTERS


def put_back(
    memory: RemoteMemory, agent: Resident, threads: Threads, unwinders: Unwinders
) -> tuple[int, bool]:
    """Restore the callers' return addresses on the stacks of all stopped threads.

    Threads that may be in an unwinder, or are just returning, are not changed. Returns the number
    of restored addresses, and whether there is such a thread.
    """
    done, held = 0, False
    mappings = maps.read(next(iter(threads.stopped), threads.pid))
    low, high = _sites(agent)
    for tid, registers in threads.registers().items():
        start = registers.sp - _RED_ZONE & -8
        stack = maps.containing(mappings, registers.sp)
        data = memory.read(start, min(stack.end - start, _MOST_STACK)) if stack else b""
        places = [
            start + offset
            for offset, word in words_between(data, low, high)
            if agent.is_return(word)
        ]
        if low <= registers.pc < high:
            held = True
            continue
        # Outside of unwinders such a register value is left over from earlier.
        if not places and not any(low <= word < high for word in registers.words()):
            continue
        if unwinders.hold(tid, registers, data):
            held = True
            continue
        done += put_back_at(memory, agent, places)
    return done, held


def put_back_at(memory: RemoteMemory, agent: Resident, places: list[int]) -> int:
    """Restore those words at these addresses that are still the agent's return addresses.

    Return their number.
    """
    done = 0
    for place in places:
        word = int.from_bytes(memory.read(place, 8), "little")
        if agent.is_return(word) and (caller := agent.return_of(word)):
            memory.write(place, caller.to_bytes(8, "little"))
            done += 1
    return done


def find_interrupted(memory: RemoteMemory, agent: Resident, pid: int) -> list[int] | None:
    """Find contexts that a signal has interrupted in the agent's code or in one of its stubs.

    They are where the kernel has put them (`struct sigcontext`), or where code has copied them.
    This takes some time, and no thread has to be stopped for it. Returns addresses, or None if
    there is too much memory to search.
    """
    spans = [(agent.base, agent.base + layout.BLOB_ENTRIES + layout.BLOB_DISTANCE)]
    spans += [(at, at + layout.PAGE) for at in agent.stubs()]
    return _find(memory, agent, pid, spans, lambda _, behind: arch.is_behind_interrupted_pc(behind))


def find_anywhere(memory: RemoteMemory, agent: Resident, pid: int) -> list[int] | None:
    """Find the agent's return addresses in all private writable memory of the process.

    This takes some time, and no thread has to be stopped for it. Returns addresses, or None if
    there is too much memory to search. Untouched memory is skipped, because thousands of stacks
    have gigabytes of zeros.
    """
    if agent.fields["site_count"] <= 1:
        return []
    return _find(memory, agent, pid, [_sites(agent)], lambda word, _: agent.is_return(word))


def _find(
    memory: RemoteMemory,
    agent: Resident,
    pid: int,
    spans: list[tuple[int, int]],
    is_wanted: Callable[[int, bytes], bool],
) -> list[int] | None:
    """Find words in `spans` that `is_wanted` accepts, by the word and the bytes behind it."""
    places: list[int] = []
    left = _MOST_MEMORY
    for mapping in maps.read(pid):
        if mapping.flags[1] != "w" or mapping.flags[3] != "p":
            continue
        if agent.base <= mapping.start < agent.base + layout.BLOB_SIZE:
            continue
        for start, end in pagemap.kept(pid, mapping.start, mapping.end):
            left -= end - start
            if left < 0:
                return None
            for at in range(start, end, _PIECE):
                data = memory.read(at, min(_PIECE, end - at))
                places += [
                    at + offset
                    for span in spans
                    for offset, word in words_between(data, *span)
                    if is_wanted(word, data[offset + 8 : offset + 8 + arch.CONTEXT_BEHIND])
                ]
    return places

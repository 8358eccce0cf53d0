# SPDX-License-Identifier: Apache-2.0
"""Return addresses that lead through the agent: on the stacks of stopped threads, and elsewhere.

A hooked call that has not returned yet has the address of a return trampoline where its
caller's was, and nothing else of it is different. Put the caller's back, and the call is one
that was never hooked. Stacks that no thread is on (coroutines) are left as they are: only
where there are none of these can unwinders do without the agent.
"""

from __future__ import annotations

from collections.abc import Callable

from soscope.entry.agent.resident import Resident
from soscope.entry.agent.unwinding import Unwinders, words_between
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.entry.stop.stopping import Threads
from soscope.proc import maps, pagemap
from soscope.wire import layout

_RED_ZONE = 128
_MOST_STACK = 256 << 20
_PIECE = 4 << 20
_MOST_MEMORY = 1 << 30  # bytes that are looked through for coroutines


def _sites(agent: Resident) -> tuple[int, int]:
    return agent.base + layout.BLOB_SITES, agent.base + layout.BLOB_COUNTERS


def put_back(
    memory: RemoteMemory, agent: Resident, threads: Threads, unwinders: Unwinders
) -> tuple[int, bool]:
    """Give the stacks of all stopped threads their callers' return addresses.

    But not those of a thread that may be in an unwinder, or is just returning. Returns how
    many they were, and whether there is such a thread.
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
        # elsewhere than in an unwinder such a register is a left-over
        if not places and not any(low <= word < high for word in registers.words()):
            continue
        if unwinders.hold(tid, registers, data):
            held = True
            continue
        done += put_back_at(memory, agent, places)
    return done, held


def put_back_at(memory: RemoteMemory, agent: Resident, places: list[int]) -> int:
    """Do the same with the words at these addresses, as far as they still are such."""
    done = 0
    for place in places:
        word = int.from_bytes(memory.read(place, 8), "little")
        if agent.is_return(word) and (caller := agent.return_of(word)):
            memory.write(place, caller.to_bytes(8, "little"))
            done += 1
    return done


def find_interrupted(memory: RemoteMemory, agent: Resident, pid: int) -> list[int] | None:
    """Find contexts that a signal has interrupted in the agent's code, or in a stub of it.

    They lie where the kernel has put them (`struct sigcontext`), or where somebody has copied them.
    Takes some time, and no thread has to be stopped for it. Returns addresses, None where there is
    too much memory to look through.
    """
    spans = [(agent.base, agent.base + layout.BLOB_ENTRIES + layout.BLOB_DISTANCE)]
    spans += [(at, at + layout.PAGE) for at in agent.stubs()]
    return _find(memory, agent, pid, spans, lambda _, behind: arch.is_behind_interrupted_pc(behind))


def find_anywhere(memory: RemoteMemory, agent: Resident, pid: int) -> list[int] | None:
    """Find the agent's return addresses in what the process can write and shares with nobody.

    Takes some time, and no thread has to be stopped for it. Returns where they are, None
    where there is too much memory to look through. Untouched memory is not looked at: that of
    thousands of stacks is gigabytes of zeros.
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
    """Find words in `spans` by what they are and by the bytes behind them."""
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

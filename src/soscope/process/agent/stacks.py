# SPDX-License-Identifier: Apache-2.0
"""Return addresses that lead through the agent: on the stacks of stopped threads, and elsewhere.

A hooked call that has not returned yet has the address of a return trampoline where its
caller's was, and nothing else of it is different. Put the caller's back, and the call is one
that was never hooked. Stacks that no thread is on (coroutines) are left as they are: only
where there are none of these can unwinders do without the agent.
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.process import maps
from soscope.process.agent.resident import Resident
from soscope.process.memory import RemoteMemory
from soscope.process.stop.stopping import Threads
from soscope.wire import layout

_RED_ZONE = 128
_MOST_STACK = 256 << 20
_PIECE = 4 << 20
_MOST_MEMORY = 1 << 30  # bytes that are looked through for coroutines


def words_between(data: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Give (offset, value) of the aligned 8-byte words in [low, high).

    The upper five bytes of all of them are one of very few values: look for those.
    """
    for upper in range(low >> 24, (high - 1 >> 24) + 1):
        pattern = upper.to_bytes(5, "little")
        at = data.find(pattern, 3)
        while at >= 0:
            if at % 8 == 3:
                word = int.from_bytes(data[at - 3 : at + 5], "little")
                if low <= word < high:
                    yield at - 3, word
            at = data.find(pattern, at + 1)


def _sites(agent: Resident) -> tuple[int, int]:
    low = agent.base + layout.BLOB_SITES
    return low, low + layout.BLOB_DISTANCE


def put_back(memory: RemoteMemory, agent: Resident, threads: Threads) -> int:
    """Give the stacks of all stopped threads their callers' return addresses; return how many."""
    if agent.fields["site_count"] <= 1:
        return 0
    places = []
    mappings = maps.read(next(iter(threads.stopped), threads.pid))
    for registers in threads.registers().values():
        start = registers.sp - _RED_ZONE & -8
        end = next((one.end for one in mappings if one.start <= registers.sp < one.end), 0)
        data = memory.read(start, min(end - start, _MOST_STACK)) if end > start else b""
        places += [start + offset for offset, _ in words_between(data, *_sites(agent))]
    return put_back_at(memory, agent, places)


def put_back_at(memory: RemoteMemory, agent: Resident, places: list[int]) -> int:
    """Do the same with the words at these addresses, as far as they still are such."""
    done = 0
    for place in places:
        word = int.from_bytes(memory.read(place, 8), "little")
        if agent.is_return(word) and (caller := agent.return_of(word)):
            memory.write(place, caller.to_bytes(8, "little"))
            done += 1
    return done


def find_anywhere(memory: RemoteMemory, agent: Resident, pid: int) -> list[int] | None:
    """Find the agent's return addresses in what the process can write and shares with nobody.

    Takes some time, and no thread has to be stopped for it. Returns where they are, None
    where there is too much memory to look through.
    """
    found: list[int] = []
    if agent.fields["site_count"] <= 1:
        return found
    left = _MOST_MEMORY
    for mapping in maps.read(pid):
        if mapping.flags[1] != "w" or mapping.flags[3] != "p":
            continue
        if agent.base <= mapping.start < agent.base + layout.BLOB_SIZE:
            continue
        for at in range(mapping.start, mapping.end, _PIECE):
            size = min(_PIECE, mapping.end - at)
            left -= size
            if left < 0:
                return None
            words = words_between(memory.read(at, size), *_sites(agent))
            found += [at + offset for offset, word in words if agent.is_return(word)]
    return found

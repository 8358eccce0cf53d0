# SPDX-License-Identifier: Apache-2.0
"""Close libraries of a running process that no patch needs and no thread is inside.

The process's own loader closes them, by a call in a borrowed thread. A library that cannot be
closed stays in the agent's table, and the next soscope that takes patches out tries again.
"""

from __future__ import annotations

import os

from soscope.control.filtered import check_filters
from soscope.control.shield import shielded
from soscope.entry import loader
from soscope.entry.agent.install import Blob
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Visit
from soscope.entry.guest.call import call
from soscope.entry.guest.frames import who_stays
from soscope.errors import NoSuchProcess, SoscopeError
from soscope.proc import maps
from soscope.proc.status import Refused

_LOADING = 20.0  # seconds for a library's destructors to finish
_LEAVING = 1.0  # seconds that threads may take to leave a library

_CLOSED, _INSIDE, _LED, _IN_USE = "closed", "inside", "led to", "in use"


class Closing:
    """The result of closing libraries, by their paths.

    `closed` are the libraries that were closed. `left` maps the path of each library that stays
    loaded to the reason. `longest_stop` is the longest time in ns that a thread was stopped.
    """

    __slots__ = ("closed", "left", "longest_stop")

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.left: dict[str, str] = {}
        self.longest_stop = 0


def close_unused(pid: int, known: list[str]) -> Closing:
    """Close the libraries of process `pid` that no patch needs.

    `known` are the paths of libraries that are known to wait for that. Nothing is raised:
    libraries that stay are in the result, with the reason.
    """
    closing = Closing()
    try:
        visit = Visit(pid)
        try:
            check_filters(visit)
        except BaseException:
            visit.close()
            raise
    except NoSuchProcess:
        return closing  # the process has ended, and its libraries with it
    except Refused as refused:
        closing.left = dict.fromkeys(known, refused.reason)
        return closing
    except SoscopeError as error:
        closing.left = dict.fromkeys(known, error.message)
        return closing
    try:
        for agent in visit.agents:
            if (owner := agent.owner) not in (0, os.getpid()):
                closing.left |= dict.fromkeys(waiting(agent), f"soscope {owner} traces the process")
            elif waiting(agent):
                _close_of(visit, agent, closing)
    except (SoscopeError, OSError):
        pass  # the process or thread has ended
    finally:
        closing.longest_stop = visit.threads.longest
        visit.close()
    return closing


def waiting(agent: Resident) -> list[str]:
    """Return the paths of the libraries that an agent keeps open and needs no more."""
    if not agent.is_known or not agent.fields["patches"]:
        return []
    table = agent.patches()
    libraries = [table.libraries[index] for index in table.unused()]
    return [os.path.normpath(library.path) for library in libraries if library is not None]


def _close_of(visit: Visit, agent: Resident, closing: Closing) -> None:
    blob = Blob.build()
    try:
        is_ours = agent.build_id == blob.build_id
        addresses = agent.base + blob.unload, agent.base + blob.trap
    finally:
        blob.close()
    table = agent.patches()
    for index in table.unused():
        library = table.libraries[index]
        assert library is not None
        handle, path = library.handle, os.path.normpath(library.path)
        if not is_ours:
            closing.left[path] = "another build of soscope has loaded it"
            continue
        is_shared = sum(each is not None and each.handle == handle for each in table.libraries) > 1

        def work(handle: int = handle, is_shared: bool = is_shared) -> tuple[str, int, int]:
            what, tid = _close(visit, handle, addresses, is_shared=is_shared)
            return what, tid, visit.threads.longest

        try:
            what, tid, visit.threads.longest = shielded(work)
        except Refused as refused:
            closing.left[path] = refused.reason
            continue
        except NoSuchProcess:
            raise
        except SoscopeError as error:
            closing.left[path] = error.message
            continue
        except OSError as error:
            closing.left[path] = error.strerror or str(error)
            continue
        if what == _INSIDE:
            closing.left[path] = f"thread {tid} is inside it"
            continue
        if what == _LED:
            closing.left[path] = "a slot still leads there"
            continue
        # dlclose is called once: if the process itself has it open, too, it must not lose it
        table.libraries[index] = None
        agent.write_patches(table)
        if what == _IN_USE:
            closing.left[path] = "the process itself has it open, or it is one that is never closed"
        elif not is_shared:
            closing.closed.append(path)


def _close(
    visit: Visit, handle: int, addresses: tuple[int, int], *, is_shared: bool
) -> tuple[str, int]:
    """Close a library if no thread is inside it. Return the result, and the thread that is inside.

    With `is_shared` the library was opened more than once, so that this call only decrements its
    count.
    """
    span = _range_of(visit, handle)
    if span is None:
        return _CLOSED, 0
    if not is_shared and (tid := who_stays(visit, *span, _LEAVING)):
        return _INSIDE, tid
    if any(agent.is_known and agent.leads_into(*span) for agent in visit.agents):
        return _LED, 0
    unload, trap = addresses
    call(visit, unload, handle.to_bytes(8, "little"), trap, limit=_LOADING)
    return (_IN_USE if not is_shared and _range_of(visit, handle) else _CLOSED), 0


def _range_of(visit: Visit, handle: int) -> tuple[int, int] | None:
    """Return the half-open address range of a library, or None if it is not loaded any more.

    `handle` is the address of its `struct link_map`.
    """
    debug = loader.read_debug(visit.memory, visit.facts.r_debug)
    if debug is None:
        return None
    entries = loader.walk(visit.memory, debug.first)
    entry = next((entry for entry in entries if entry.addr == handle), None)
    if entry is None:
        return None
    mappings = maps.read(visit.tid)
    at = next(
        (
            index
            for index, mapping in enumerate(mappings)
            if mapping.start <= entry.dynamic < mapping.end
        ),
        None,
    )
    if at is None:
        return None
    first = last = at
    path = mappings[at].path
    while first and _continues(mappings[first - 1], mappings[first], path):
        first -= 1
    while last + 1 < len(mappings) and _continues(mappings[last], mappings[last + 1], path):
        last += 1
    return mappings[first].start, mappings[last].end


def _continues(lower: maps.Mapping, upper: maps.Mapping, path: str) -> bool:
    return lower.end == upper.start and lower.path == upper.path == path

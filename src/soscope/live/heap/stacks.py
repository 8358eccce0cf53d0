# SPDX-License-Identifier: Apache-2.0
"""The stacks of threads: those that live, and those that glibc keeps for threads to come.

At the upper end of a stack that glibc has made lies its thread's descriptor (struct pthread), which
holds its own address twice. A stack is mapped above pages that may not be touched.
"""

from __future__ import annotations

from soscope.live.heap.ownwords import own_words
from soscope.live.heap.ranges import TakenRanges
from soscope.proc import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.pages import Pages
    from soscope.live.images.space import Space

_DESCRIPTOR = 0x900  # bytes that every release's has at least
_SELF = 16  # where it holds its address once more
_IDS = range(0x200, 0x400, 4)  # where the thread's id is in it
_MOST = 64 << 20  # bytes that are resident of one stack
_LARGEST = 16 << 30  # bytes of one; to ask for the pages of a sanitizer's shadow takes minutes


class ThreadStack:
    """One stack, [start, end); `tid` is its thread, None where that has ended."""

    __slots__ = ("end", "start", "tid")

    def __init__(self, start: int, end: int, tid: int | None) -> None:
        self.start = start
        self.end = end
        self.tid = tid


def find_stacks(space: Space, pages: Pages, taken: TakenRanges) -> list[ThreadStack]:
    """Return the stacks of threads but for the first; `taken` are ranges that are no stacks."""
    by_inner = {status.inner_pid(tid): tid for tid in space.threads}
    stacks: list[ThreadStack] = []
    before = None
    for mapping in space.mappings:
        is_above_guard = (
            before is not None and before.end == mapping.start and before.flags[:3] == "---"
        )
        before = mapping
        if (
            not is_above_guard
            or mapping.flags[:2] != "rw"
            or mapping.inode
            or taken.meets(mapping.start, mapping.end)
        ):
            continue
        stack = _described(space, pages, mapping.start, mapping.end, by_inner)
        if stack is not None:
            stacks.append(stack)
    return stacks + _others(space, stacks, taken)


def _described(
    space: Space, pages: Pages, start: int, end: int, by_inner: dict[int, int]
) -> ThreadStack | None:
    """Return the stack that begins at `start` and has a descriptor, None where it has none."""
    if end - start > _LARGEST:
        return None
    resident = pages.of(start, end)
    if resident.count(start, end) > _MOST:
        return None
    data = resident.read(space, start, end)
    if len(data) < _DESCRIPTOR:
        return None
    at = _descriptor(data, start)
    if at is None:
        return None
    ids = {int.from_bytes(data[at + offset : at + offset + 4], "little") for offset in _IDS}
    tid = next((by_inner[number] for number in ids if number in by_inner), None)
    return ThreadStack(start, min(end, start + (at + _DESCRIPTOR + 4095 & -4096)), tid)


def _descriptor(data: bytearray, start: int) -> int | None:
    """Return where in a stack that begins at `start` its descriptor is, None if it has none."""
    for at in own_words(data, start):
        if data[at : at + 8] == data[at + _SELF : at + _SELF + 8]:
            return at
    return None


def _others(space: Space, known: list[ThreadStack], taken: TakenRanges) -> list[ThreadStack]:
    """Return the stacks of threads of which no descriptor is known: where they have stopped."""
    stacks: list[ThreadStack] = []
    tids = {stack.tid for stack in known}
    others = TakenRanges((stack.start, stack.end) for stack in known)
    for tid in space.threads:
        if tid in tids:
            continue
        pointer = _stack_pointer(space.pid, tid)
        mapping = space.mapping_at(pointer) if pointer else None
        if mapping is None or mapping.inode or mapping.path or mapping.flags[1] != "w":
            continue
        start, end = mapping.start, mapping.end
        is_known = any(stack.start == start for stack in stacks)
        if is_known or taken.meets(start, end) or others.meets(start, end):
            continue
        stacks.append(ThreadStack(mapping.start, mapping.end, tid))
    return stacks


def _stack_pointer(pid: int, tid: int) -> int:
    """Return a thread's stack pointer, 0 where it runs just now (proc_pid_syscall(5))."""
    try:
        with open(f"/proc/{pid}/task/{tid}/syscall", "rb") as file:
            words = file.read().split()
    except OSError:
        return 0  # the thread has ended
    return int(words[-2], 16) if len(words) >= 3 else 0

# SPDX-License-Identifier: Apache-2.0
"""The stacks of threads, and the stacks that glibc caches for future threads.

At the upper end of a stack that glibc has made lies its thread's descriptor (struct pthread),
which contains its own address twice. A stack is mapped above inaccessible guard pages.
"""

from __future__ import annotations

from soscope.live.heap.ownwords import own_words
from soscope.live.heap.ranges import TakenRanges
from soscope.proc import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.pages import Pages
    from soscope.live.images.space import Space

_DESCRIPTOR = 0x900  # bytes; the descriptor of no release is smaller
_SELF = 16  # offset of the second copy of its own address
_IDS = range(0x200, 0x400, 4)  # possible offsets of the thread's id
_MOST = 64 << 20  # resident bytes of one stack, at most
_LARGEST = 16 << 30  # bytes of one stack: a larger mapping is no stack, and slow


class ThreadStack:
    """One stack [start, end); `tid` is its thread, None if that has ended."""

    __slots__ = ("end", "start", "tid")

    def __init__(self, start: int, end: int, tid: int | None) -> None:
        self.start = start
        self.end = end
        self.tid = tid


def find_stacks(space: Space, pages: Pages, taken: TakenRanges) -> list[ThreadStack]:
    """Return the stacks of all threads except the first; the ranges `taken` are not stacks."""
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
    """Return the stack that begins at `start`, None if it has no descriptor."""
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
    """Return the offset of the descriptor in a stack that begins at `start`, or None."""
    for at in own_words(data, start):
        if data[at : at + 8] == data[at + _SELF : at + _SELF + 8]:
            return at
    return None


def _others(space: Space, known: list[ThreadStack], taken: TakenRanges) -> list[ThreadStack]:
    """Return the stacks of threads without a known descriptor, by their stack pointers."""
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
    """Return a thread's stack pointer, 0 if it is running (proc_pid_syscall(5))."""
    try:
        with open(f"/proc/{pid}/task/{tid}/syscall", "rb") as file:
            words = file.read().split()
    except OSError:
        return 0  # the thread has ended
    return int(words[-2], 16) if len(words) >= 3 else 0

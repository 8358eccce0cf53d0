# SPDX-License-Identifier: Apache-2.0
"""Reads the agent's data about calls of instrumented code: trees of addresses, by thread.

Times are measured ticks of the processor's clock, including the time of the hooks.
"""

from __future__ import annotations

from soscope.model.image import Record
from soscope.wire import headers
from soscope.wire.headers import PROF, PROF_COST, PROF_FRAME, PROF_NODE, PROF_TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.log import ThreadLog

ROOT = -1  # parent of a node that was called from code without hooks

_MASK = (1 << 64) - 1
_RETURNED = 1  # marks a frame that has returned below open ones
_WORDS = PROF_NODE.size // 8


class CallNode(Record):
    """A function on one call path.

    `parent` is an index into `ThreadCalls.nodes`, before this node, or ROOT. `function` is the
    function's addr if `hook` is PROF_CYG, else an addr inside of it, and `site` always is.
    `caller` is the return address of the first call, 0 if not known; roots have it for all calls.
    `calls` is exact. `timed` calls took `total_ticks`, except for those inside a call of the same
    node, and `self_ticks` without the calls inside them. `unseen` means that returns cannot be
    seen, so no call is timed.
    """

    __slots__ = (
        "caller",
        "calls",
        "function",
        "hook",
        "parent",
        "self_ticks",
        "site",
        "timed",
        "total_ticks",
        "unseen",
    )

    def __init__(
        self,
        parent: int,
        function: int,
        caller: int,
        site: int,
        hook: int,
        *,
        calls: int = 0,
        timed: int = 0,
        total_ticks: int = 0,
        self_ticks: int = 0,
        unseen: bool = False,
    ) -> None:
        self.parent = parent
        self.function = function
        self.caller = caller
        self.site = site
        self.hook = hook
        self.calls = calls
        self.timed = timed
        self.total_ticks = total_ticks
        self.self_ticks = self_ticks
        self.unseen = unseen


class ThreadCalls(Record):
    """All calls of a thread, or of several (`threads`), of which `tid` is the last (0: not known).

    `dropped` calls found no room and are in no node. `left` calls did not return: longjmp, an
    exception or a coroutine ended them, or their thread ended before another one got its table.
    Their times are lower bounds. The same is true for `still_open` calls, which had not returned
    when this was read, because they went on, were suspended, or their thread had ended.
    `unpaired` returns belong to no open call, and `deep` calls were nested too deeply. Both are
    counted, not timed. If calls are logged, `open_calls` are the open ones of the last thread, as
    words of their units (commit, start, ticks, function, around). The other calls are in the log,
    and in no node.
    """

    __slots__ = (
        "deep",
        "dropped",
        "left",
        "nodes",
        "open_calls",
        "pid",
        "still_open",
        "threads",
        "tid",
        "unpaired",
    )

    def __init__(
        self, pid: int, tid: int, threads: int, left: int = 0, unpaired: int = 0, deep: int = 0
    ) -> None:
        self.pid = pid
        self.tid = tid
        self.threads = threads
        self.nodes: list[CallNode] = []
        self.dropped = 0
        self.left = left
        self.unpaired = unpaired
        self.deep = deep
        self.still_open = 0
        self.open_calls: list[tuple[int, ...]] = []


class LoggedThread(ThreadCalls):
    """The calls of a thread that were recorded one by one in `log`, and are added up here."""

    __slots__ = ("log",)

    def __init__(self, log: ThreadLog) -> None:
        super().__init__(log.pid, log.tid, 1)
        self.log = log
        self.dropped = log.overwritten


class ReportedCalls(Record):
    """The calls that one program's processes have reported.

    `mode` is a PROF_ mode of `headers`, and one call in `period` was timed. `costs` has for
    each hook the ticks that an empty call appears to take and its total cost, (0, 0) if not
    measured. Hooks have `slots` slots, and `foreign` of them were left to another profiler.
    `has_shadow_stack` means that returns to trampolines are forbidden, so functions that report
    no return are only counted. `is_followed` means that forked children may be among the
    processes, and that an image that one of them has closed may be open in another. If an image
    was closed, its addresses contain its number (`in_image`). `entries` functions were patched.
    `left` functions were not, by reason (PROF_LEFT_ of `headers`). For `unread` images it is
    not known whether they have entries to patch.
    """

    __slots__ = (
        "costs",
        "entries",
        "foreign",
        "has_shadow_stack",
        "is_followed",
        "left",
        "mode",
        "period",
        "slots",
        "threads",
        "unread",
    )

    def __init__(
        self,
        mode: int,
        period: int,
        costs: list[tuple[int, int]],
        *,
        slots: int,
        foreign: int,
        has_shadow_stack: bool,
        is_followed: bool,
        entries: int = 0,
        left: list[int] | None = None,
        unread: int = 0,
    ) -> None:
        self.mode = mode
        self.period = period
        self.costs = costs
        self.slots = slots
        self.foreign = foreign
        self.has_shadow_stack = has_shadow_stack
        self.is_followed = is_followed
        self.entries = entries
        self.left = [0] * headers.PROF_LEFT_KINDS if left is None else left
        self.unread = unread
        self.threads: list[ThreadCalls] = []


def own_memory(mode: int, period: int = 1, tables: int = 48) -> tuple[bytes, int]:
    """Return the first bytes of the instrument's memory, and its size; most of it is not touched.

    One call in `period`, a power of two, is timed. Threads have `tables` tables, the last of
    which is shared by all threads that find no other.
    """
    words = [mode, tables, period, 1, headers.PROF_HEAD]
    values = len(PROF.struct.unpack(bytes(PROF.size)))
    head = PROF.struct.pack(*words, *(0,) * (values - len(words)))
    return head, headers.PROF_HEAD + tables * headers.PROF_TABLE_SIZE


def read(own: memoryview) -> ReportedCalls | None:
    """Read the instrument's memory as it is, None if there is none.

    The times of open calls reach until the last report.
    """
    if len(own) < PROF.size:
        return None
    mode, tables, period, used, first, *rest = PROF.struct.unpack_from(own)
    costs = [
        PROF_COST.struct.unpack_from(own, PROF.offset("cost") + hook * PROF_COST.size)
        for hook in range(headers.PROF_HOOKS)
    ]
    foreign, flags, slots, entries, *left = rest[4 : 8 + headers.PROF_LEFT_KINDS]
    calls = ReportedCalls(
        mode,
        period,
        costs,
        slots=slots,
        foreign=foreign,
        has_shadow_stack=bool(flags & headers.PROF_SHADOW_STACK),
        is_followed=bool(flags & headers.PROF_FOLLOWED),
        entries=entries,
        left=left,
        unread=rest[8 + headers.PROF_LEFT_KINDS],
    )
    for number in range(min(used, tables)):
        start = first + number * headers.PROF_TABLE_SIZE
        end = start + headers.PROF_TABLE_SIZE
        if end > len(own):
            break
        with own[start:end] as table:
            thread = _thread(table, logs=mode == headers.PROF_LOG)
        if thread.threads or thread.nodes or thread.dropped:
            calls.threads.append(thread)
    return calls


def _thread(table: memoryview, *, logs: bool) -> ThreadCalls:
    pid, tid, threads, _, done, last, *lost = PROF_TABLE.struct.unpack_from(table)
    thread = ThreadCalls(pid, tid if threads == 1 or logs else 0, threads, *lost[:3])
    frames = [frame for frame in _frames(table) if frame[0] != _RETURNED]
    thread.still_open = len(frames)
    if logs:
        thread.open_calls = [
            (commit, begun, max(0, last - begun), function, around)
            for _, begun, _, _, _, around, function, _, commit in frames
        ]
        return thread
    nodes_end = headers.PROF_HEAD + headers.PROF_NODES * PROF_NODE.size
    with table[headers.PROF_HEAD : nodes_end] as part, part.cast("Q") as words:
        thread.dropped = words[2]
        rows = {
            place: list(words[place * _WORDS : place * _WORDS + _WORDS])
            for place, function in enumerate(words[1::_WORDS].tolist())
            if function
        }
    _add_open(rows, frames, done, last)
    _order(rows, thread.nodes)
    return thread


def _add_open(
    rows: dict[int, list[int]], frames: list[tuple[int, ...]], done: int, last: int
) -> None:
    """Add the times of calls that have not returned, innermost first."""
    for _, start, before, _, _, key, _, flags, _ in reversed(frames):
        row = rows.get((key & _MASK >> 1) // PROF_NODE.size)
        if not flags & headers.PROF_FRAME_TIMED or row is None:
            continue
        ticks = max(0, last - start)
        own = max(0, ticks - (done - before))
        done += own
        if not flags & headers.PROF_FRAME_FOLDED:
            row[3] += ticks
        row[4] += own
        row[7] += 1  # the lower half is `timed`


def _frames(table: memoryview) -> list[tuple[int, ...]]:
    """Return the frames of open calls, outermost first."""
    start = headers.PROF_HEAD + headers.PROF_NODES * PROF_NODE.size + PROF_FRAME.size
    frames = []
    for at in range(start, len(table), PROF_FRAME.size):
        frame = PROF_FRAME.struct.unpack_from(table, at)
        if not frame[0]:
            break
        frames.append(frame)
    return frames


def _order(rows: dict[int, list[int]], nodes: list[CallNode]) -> None:
    """Append the nodes, parents first. Equal nodes become one."""
    inside: dict[int, list[int]] = {}
    for place, row in rows.items():
        if not row[7] >> 32 & headers.PROF_NODE_ALIAS:
            inside.setdefault(_parent(row[0], rows), []).append(place)
    merged: dict[tuple[int, int, int], int] = {}
    waiting = [(place, ROOT) for place in inside.get(ROOT, ())]
    while waiting:
        place, parent = waiting.pop()
        key, function, calls, total, self_ticks, caller, site, last = rows[place]
        known = (parent, function, 0 if key & headers.PROF_INSIDE else key)
        index = merged.setdefault(known, len(nodes))
        flags = last >> 32
        if index == len(nodes):
            hook = flags & headers.PROF_NODE_HOOK
            is_unseen = bool(flags & headers.PROF_NODE_UNSEEN)
            nodes.append(CallNode(parent, function, caller, site, hook, unseen=is_unseen))
        node = nodes[index]
        node.calls += calls
        node.timed += last & 0xFFFF_FFFF
        node.total_ticks += total
        node.self_ticks += self_ticks
        waiting += [(each, index) for each in inside.get(place, ())]


def _parent(key: int, rows: dict[int, list[int]]) -> int:
    """Return the place of a node's parent, ROOT if it is not known or there is none."""
    place = (key & _MASK >> 1) // PROF_NODE.size
    return place if key & headers.PROF_INSIDE and place in rows else ROOT

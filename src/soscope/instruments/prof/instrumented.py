# SPDX-License-Identifier: Apache-2.0
"""The prof instrument for code that reports its calls (-pg, -finstrument-functions)."""

from __future__ import annotations

from math import sqrt

from soscope.control.settings import Hooks, Instrument
from soscope.errors import FormatError
from soscope.instruments.prof.model import MODE_COUNT, MODE_LOG, MODE_QUIET, MODE_SAMPLE, MODE_TIME
from soscope.model.record import Record, fresh
from soscope.prototypes import load, table
from soscope.recording.sink import Sink
from soscope.select.filter import ALL, compile_selection
from soscope.wire import headers, layout
from soscope.wire.headers import PROF, PROF_COST, PROF_FRAME, PROF_NODE, PROF_TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from soscope.control.outcome import Price, ProgramOutcome
    from soscope.instruments.prof.log import ThreadLog
    from soscope.select.patterns import Automaton
    from soscope.wire.block import ControlBlock


# Reads the agent's data about calls of instrumented code: trees of addresses, by thread.
#
# Times are measured ticks of the processor's clock, including the time of the hooks.

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

    parent: int
    function: int
    caller: int
    site: int
    hook: int
    calls: int = 0
    timed: int = 0
    total_ticks: int = 0
    self_ticks: int = 0
    unseen: bool = False


class ThreadCalls(Record):
    """All calls of a thread, or of several (`threads`), of which `tid` is the last (0: not known).

    `dropped` calls found no room and are in no node. `left` calls did not return: longjmp, an
    exception or a coroutine ended them, or their thread ended before another one got its table.
    Their times are lower bounds. The same is true for `still_open` calls, which had not returned
    when this was read, because they went on, were suspended, or their thread had ended.
    `unpaired` returns belong to no open call, and `deep` calls were nested too deeply. Both are
    counted, not timed. If calls are logged, `open_calls` are the open ones of the last thread, as
    words of their units (commit, start, ticks, function, around). The other calls are in the log,
    and in no node, until `log.tree_of` adds up the calls of a thread's `log`.
    """

    pid: int
    tid: int
    threads: int
    left: int = 0
    unpaired: int = 0
    deep: int = 0
    nodes: list[CallNode] = fresh(list)
    dropped: int = 0
    still_open: int = 0
    open_calls: list[tuple[int, ...]] = fresh(list)
    log: ThreadLog | None = None


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

    mode: int
    period: int
    costs: list[tuple[int, int]]
    slots: int
    foreign: int
    has_shadow_stack: bool
    is_followed: bool
    entries: int = 0
    left: Sequence[int] = (0,) * headers.PROF_LEFT_KINDS
    unread: int = 0
    threads: list[ThreadCalls] = fresh(list)


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


# Times of calls that instrumented code reported, corrected for the cost of reporting.
#
# An empty call appears to take `inner` ticks, and costs its caller `outer` ticks in total. The
# difference is part of the time of the call around it.

_FEW = 30  # with fewer calls, a mean tells little


class NodeTimes(Record):
    """Ticks of a node's calls: `total` includes the calls inside them, and `self_` does not.

    Both are without the cost of hooks. `overhead` is what has been subtracted from `self_`.
    `doubt` is the possible error of `self_`, as hooks may cost twice as much or nothing, compared
    with an empty call when the session began. `total_doubt` is the possible error of `total`. If
    only one call in several was timed, all values are estimates for all calls, and the errors
    include the error of the estimate. None means that no call was timed.
    """

    total: int | None
    self_: int | None
    overhead: int | None
    doubt: int | None
    total_doubt: int | None


_UNKNOWN = NodeTimes(None, None, None, None, None)

# By function: measured ticks per timed call, and the number of timed calls.
Means = dict[int, tuple[float, int]]


def means_of(calls: ReportedCalls) -> Means:
    """Return the mean time of the timed calls of each function, over all call paths."""
    sums: dict[int, tuple[int, int]] = {}
    for thread in calls.threads:
        for node in thread.nodes:
            ticks, timed = sums.get(node.function, (0, 0))
            sums[node.function] = ticks + node.total_ticks, timed + node.timed
    return {function: (ticks / timed, timed) for function, (ticks, timed) in sums.items() if timed}


def node_times(calls: ReportedCalls, thread: ThreadCalls, means: Means) -> list[NodeTimes]:
    """Return the times of a thread's nodes, in their order. `means` come from `means_of`."""
    if calls.period > 1:
        return _estimated(calls, thread.nodes, means)
    return _measured(calls, thread.nodes)


def _measured(calls: ReportedCalls, nodes: list[CallNode]) -> list[NodeTimes]:
    below = [0] * len(nodes)  # cost of hooks of calls below, in the node's total
    around = [0] * len(nodes)  # in the node's self time
    measured = [0] * len(nodes)  # measured totals of the nodes directly below
    callees = [0] * len(nodes)  # the same totals without the cost of hooks
    hooks = [0] * len(nodes)  # cost of hooks of the node and of all calls below
    times = [_UNKNOWN] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        own = node.timed * inner + around[index]
        total = callees[index]
        hooks[index] += node.timed * outer
        if node.timed:
            self_ = max(0, node.self_ticks - own)
            # Calls of coroutines may go on when the call around them has ended.
            are_inside = node.self_ticks + measured[index] <= node.total_ticks
            # The time of a call that took less than its hooks cost is 0. The rest of that cost was
            # not inside it.
            least = self_ + (callees[index] if are_inside else 0)
            total = max(least, node.total_ticks - below[index] - own)
            doubt = node.timed * outer + around[index]
            times[index] = NodeTimes(total, self_, node.self_ticks - self_, doubt, hooks[index])
        if node.parent >= 0:
            around[node.parent] += node.timed * max(0, outer - inner)
            below[node.parent] += below[index] + own
            measured[node.parent] += node.total_ticks if node.timed else measured[index]
            callees[node.parent] += total
            hooks[node.parent] += hooks[index]
    return times


def _estimated(calls: ReportedCalls, nodes: list[CallNode], means: Means) -> list[NodeTimes]:
    """Estimate all calls from the timed ones, or from the function's calls on other paths."""
    below = [0.0] * len(nodes)  # cost of hooks of all calls below
    around = [0.0] * len(nodes)  # of the calls directly below, outside of their own times
    callees = [0.0] * len(nodes)  # totals of the nodes directly below
    doubts = [0.0] * len(nodes)  # possible errors of these totals
    times = [_UNKNOWN] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        total, doubt = callees[index], doubts[index]
        known = (node.total_ticks / node.timed, node.timed) if node.timed else None
        known = known or means.get(node.function)
        if known is not None and not node.unseen:
            mean, timed = known
            # At least the estimates inside, else self times would exceed totals.
            total = max(callees[index], (mean - inner) * node.calls - below[index])
            self_ = total - callees[index]
            overhead = node.calls * inner + around[index]
            doubt = total * _doubt(node, timed)
            hooks = node.calls * outer + around[index]
            times[index] = NodeTimes(
                round(total),
                round(self_),
                round(overhead),
                round(hooks + doubt + doubts[index]),
                round(node.calls * outer + below[index] + doubt),
            )
        if node.parent >= 0:
            below[node.parent] += below[index] + node.calls * outer
            around[node.parent] += node.calls * max(0, outer - inner)
            callees[node.parent] += total
            doubts[node.parent] += doubt
    return times


def _doubt(node: CallNode, timed: int) -> float:
    """Return the relative error of the total of a node's calls, if `timed` calls were timed.

    Times of calls differ by about their mean, so the error of the mean is the mean divided by the
    root of their number. Twice that is seldom exceeded. A few calls tell nothing about the
    others.
    """
    if timed and node.timed == node.calls:
        return 0.0
    return 2 / sqrt(timed) if timed >= _FEW else 1.0


# Calls that instrumented code has reported, in the format of a recording.

_NODE = CallNode.__slots__


def pack(calls: ReportedCalls) -> dict[str, object]:
    """Return the object that a recording keeps (`format.REPORTED`)."""
    kept = sorted({*ThreadCalls.__slots__} - {"log"})
    return {
        **{name: getattr(calls, name) for name in ReportedCalls.__slots__ if name != "threads"},
        "node": list(_NODE),
        "threads": [
            {
                **{name: getattr(thread, name) for name in kept},
                "nodes": [[int(getattr(node, name)) for name in _NODE] for node in thread.nodes],
            }
            for thread in calls.threads
        ],
    }


def unpack(said: dict[str, Any]) -> ReportedCalls:
    """Return the calls that `pack` was given. Raises FormatError for other objects."""
    try:
        calls = ReportedCalls(
            said["mode"],
            _number(said["period"]),
            [(_number(inner), _number(outer)) for inner, outer in said["costs"]],
            slots=_number(said["slots"]),
            foreign=_number(said["foreign"]),
            has_shadow_stack=said["has_shadow_stack"],
            is_followed=said["is_followed"],
            entries=_number(said.get("entries", 0)),
            left=said.get("left") or (0,) * headers.PROF_LEFT_KINDS,
            unread=_number(said.get("unread", 0)),
        )
        places = [said["node"].index(name) for name in _NODE]
        for row in said["threads"]:
            pid, tid, threads, left, unpaired, deep = (
                _number(row[name]) for name in ("pid", "tid", "threads", "left", "unpaired", "deep")
            )
            thread = ThreadCalls(pid, tid, threads, left, unpaired, deep)
            thread.dropped = _number(row["dropped"])
            thread.still_open = _number(row.get("still_open", 0))  # missing in older recordings
            for words in row["open_calls"]:
                commit, start, ticks, function, around = map(_number, words)
                thread.open_calls.append((commit, start, ticks, function, around))
            for values in row["nodes"]:
                node = CallNode(0, 0, 0, 0, 0)
                for name, place in zip(_NODE, places, strict=True):
                    setattr(node, name, _number(values[place]))
                if not (
                    ROOT <= node.parent < len(thread.nodes) and 0 <= node.hook < len(calls.costs)
                ):
                    raise ValueError("a node without its parent or hook")
                thread.nodes.append(node)
            calls.threads.append(thread)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise FormatError(f"its reported calls are damaged: {error}") from error
    return calls


def _number(value: object) -> int:
    """Return an integer of at most 64 bits. Raises ValueError for other values."""
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value!r:.40} is not a number")
    return value


# Functions that were built with -fpatchable-function-entry are patched, and then report their
# calls in the same way.

HOOKS = (
    "mcount",
    "_mcount",
    "__fentry__",
    "__cyg_profile_func_enter",
    "__cyg_profile_func_exit",
    "__cyg_profile_func_enter_bare",
)
SAMPLE_PERIOD = 64

_MODES = {
    MODE_QUIET: headers.PROF_QUIET,
    MODE_COUNT: headers.PROF_COUNT,
    MODE_SAMPLE: headers.PROF_SAMPLE,
    MODE_TIME: headers.PROF_TIME,
    MODE_LOG: headers.PROF_LOG,
}


class ProfHooks(Hooks):
    """Hooks that no other instrument may have, as they are no ordinary functions."""

    def _table(self, patterns: list[Automaton]) -> bytes:
        del patterns
        return table.build([], [], arguments=False, exits=False)


class LoggingHooks(ProfHooks):
    """The same hooks, for recording each call by itself."""

    @property
    def needs_ring(self) -> bool:
        """See the base class."""
        return True


class InstrumentedCode(Instrument):
    """Counts, times or logs the calls that instrumented images report, in the agent."""

    name = "prof"

    def __init__(
        self,
        mode: str = MODE_TIME,
        images: list[str] | None = None,
        *,
        period: int = SAMPLE_PERIOD,
        tables: int = 48,
    ) -> None:
        """Record the images that `images` match, patterns as of `--from`, or all if it is None.

        With MODE_SAMPLE, one call in `period` is timed, which is a power of two. There are
        `tables` tables. Each thread has one of its own while there are some, and the last one
        counts the calls of all further threads together, without times. Raises UsageError for a
        faulty pattern.
        """
        is_timed = mode in (MODE_SAMPLE, MODE_TIME, MODE_LOG)
        own, size = own_memory(_MODES[mode], period if mode == MODE_SAMPLE else 1, tables=tables)
        hooks = LoggingHooks if mode == MODE_LOG else ProfHooks
        self.hooks: Hooks = hooks(
            layout.INSTRUMENT_PROF,
            compile_selection(list(HOOKS), images or [ALL]),
            load(),
            entry_only=not is_timed,
            own_size=size,
            own=own,
        )
        self._stopped: dict[int, ReportedCalls | None] = {}  # by id() of a block
        self._calls = 0
        self._ticks = 0  # ticks that hooks have added to the calls
        self._least = 0  # ticks that a hook adds to a recorded call

    def stopped(self, block: ControlBlock) -> None:
        """Read a program's calls now, as the program goes on."""
        self._stopped[id(block)] = _read(block)

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Read the calls that the processes of one program have reported."""
        key = id(block)
        calls = self._stopped.pop(key) if key in self._stopped else _read(block)
        if calls is not None:
            sink.reported(program.index, pack(calls))
            self._weigh(calls)

    def _weigh(self, calls: ReportedCalls) -> None:
        for thread in calls.threads:
            for node in thread.nodes:
                self._calls += node.calls
                self._ticks += node.calls * calls.costs[node.hook][1]
        known = [outer for _, outer in calls.costs if outer]
        self._least = max(self._least, min(known, default=0))

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Add the time that hooks added to the calls, as the agents have measured it."""
        calls, ticks = self._calls, self._ticks
        if self.hooks.needs_ring:
            calls, ticks = units, units * self._least
        if ticks:
            cost.call_ns = round(ticks / calls * ns_per_tick, 1)
            cost.calls_ns = (cost.calls_ns or 0) + round(ticks * ns_per_tick)


def _read(block: ControlBlock) -> ReportedCalls | None:
    with block.own(layout.INSTRUMENT_PROF) as own:
        return read(own)

# SPDX-License-Identifier: Apache-2.0
"""What a trace is to do: the command line's options, or the arguments of soscope.trace()."""

from __future__ import annotations

# What is wanted of the calls.
MODE_TRACE = "trace"  # every call, as it happens
MODE_SUMMARY = "summary"  # -c: calls, errors and times by function
MODE_COUNT = "count"  # --count-only: calls by function

WHEN_FULL = ("block", "drop", "overwrite", "stop")  # in the order of enum sosc_when_full

DEFAULT_STRING_LIMIT = 32
DEFAULT_BUFFER = 16 << 20
LEAST_BUFFER = 256 << 10  # sixteen chunks: a few threads with one each
MOST_BUFFER = 64 << 30
MOST_STRING_LIMIT = 4096


class TraceSettings:
    """What to trace, how, and where to. Times are nanoseconds, sizes bytes.

    `command` is the program and its arguments; with `pid` those of that process, which runs
    already. `select`, `callers` and `callees` are the
    arguments of -e, --from and --to, as the user wrote them. `mode` is one of the MODE_
    constants of this module, `when_full` one of WHEN_FULL. `follow`: traced programs'
    children, too. `entry_only`: no exits, hence no results and durations. `duration_ns`:
    stop recording after so long, None: never. `buffer` is the size of the ring, `limit`
    that of the recording (None: no limit). `record` is the path of the recording to write,
    None: none is kept. `wants_events`: somebody reads the events as they come.
    """

    __slots__ = (
        "buffer",
        "callees",
        "callers",
        "command",
        "debug",
        "duration_ns",
        "entry_only",
        "follow",
        "limit",
        "mode",
        "pid",
        "record",
        "select",
        "string_limit",
        "wants_events",
        "when_full",
    )

    def __init__(
        self,
        command: list[str],
        *,
        select: list[str] | None = None,
        callers: list[str] | None = None,
        callees: list[str] | None = None,
        mode: str = MODE_TRACE,
        follow: bool = False,
        entry_only: bool = False,
        string_limit: int = DEFAULT_STRING_LIMIT,
        duration_ns: int | None = None,
        buffer: int = DEFAULT_BUFFER,
        limit: int | None = None,
        when_full: str = "block",
        record: str | None = None,
        pid: int | None = None,
        wants_events: bool = True,
        debug: bool = False,
    ) -> None:
        self.command = command
        self.select = select or []
        self.callers = callers or []
        self.callees = callees or []
        self.mode = mode
        self.follow = follow
        self.entry_only = entry_only
        self.string_limit = string_limit
        self.duration_ns = duration_ns
        self.buffer = buffer
        self.limit = limit
        self.when_full = when_full
        self.record = record
        self.pid = pid
        self.wants_events = wants_events
        self.debug = debug

# SPDX-License-Identifier: Apache-2.0
"""The logged calls of a recording, together with the agent's final data."""

from __future__ import annotations

import numpy as np

from soscope.instruments.prof.log import OpenCalls, ThreadLog, logs_of
from soscope.instruments.prof.logtree import tree_of
from soscope.instruments.prof.timeline import ThreadTimeline
from soscope.instruments.prof.tree import ReportedCalls
from soscope.recording.columns import Times
from soscope.recording.reader import RecordingFile
from soscope.wire import headers, layout


def add_logged(recording: RecordingFile, reported: list[tuple[int, ReportedCalls]]) -> None:
    """Add the trees of all threads to the final data of each program.

    If a program has none because soscope was killed, the cost of its hooks is not known.
    """
    said = dict(reported)
    for program, threads in _logs(recording, reported).items():
        if program not in said:
            costs = [(0, 0)] * headers.PROF_HOOKS
            calls = ReportedCalls(
                headers.PROF_LOG,
                1,
                costs,
                slots=1,
                foreign=0,
                has_shadow_stack=False,
                is_followed=False,
            )
            said[program] = calls
            reported.append((program, calls))
        said[program].threads += [tree_of(thread) for thread in threads]


def _logs(
    recording: RecordingFile, reported: list[tuple[int, ReportedCalls]]
) -> dict[int, list[ThreadLog]]:
    """Return the logs of each program's threads."""
    still_open: dict[int, OpenCalls] = {}
    for program, calls in reported:
        for thread in calls.threads:
            if thread.open_calls:
                known = still_open.setdefault(program, {})
                known.setdefault((thread.pid, thread.tid), []).extend(thread.open_calls)
    return logs_of(recording, still_open)


def timeline_of(
    thread: int, log: ThreadLog, functions: dict[tuple[int, int], int], times: Times
) -> ThreadTimeline:
    """Return the timeline of a log. `functions` are indices by (reported function, hook).

    Calls of a program that forbids the clock have no time, and are left out.
    """
    hooks = (log.flags & layout.REPORTED_HOOK).astype(np.int64)
    reported, which = np.unique(
        np.stack([log.function, hooks], axis=1), axis=0, return_inverse=True
    )
    places = np.array([functions[function, hook] for function, hook in reported.tolist()])
    timed = log.start > 0
    start, ticks = log.start[timed], log.ticks[timed]
    return ThreadTimeline(
        thread,
        times.ns(start),
        times.ns(start + ticks),
        places[which.reshape(-1)][timed],
        log.flags[timed],
        log.is_open[timed],
    )

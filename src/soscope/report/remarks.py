# SPDX-License-Identifier: Apache-2.0
"""How processes were left that ran before, and what threads waited for, in words."""

from __future__ import annotations

from soscope.control.outcome import AttachedOutcome, Outcome, time_text
from soscope.model.call import Delays
from soscope.report.words import plural

# Lines about how soscope left processes that ran before, for people.


def attached_lines(outcome: Outcome, *, verbose: bool = False) -> list[str]:
    """Return which processes were not traced, and how the others were left."""
    lines = [f"not traced: {why}" for why in outcome.not_attached]
    is_alone = len(outcome.attached) == 1
    for attachment in outcome.attached:
        about = _left(attachment, verbose=verbose)
        # With several processes, each line begins with the process.
        named = is_alone or attachment.has_ended or attachment.executed is not None
        lines += about if named else [f"process {attachment.pid}: {line}" for line in about]
    return lines


def _left(attached: AttachedOutcome, *, verbose: bool) -> list[str]:
    """Return how a process that goes on was left, or that it has ended."""
    if attached.executed is not None:
        what = f"process {attached.pid} has executed {attached.executed}"
        return [f"{what}, which is not traced: -f follows what it executes"]
    if attached.has_ended and attached.is_exit_known:
        return [f"process {attached.pid} has ended"]
    if attached.has_ended:
        return [f"process {attached.pid} has ended; how is for its parent to know"]
    lines = []
    if attached.failure is not None:
        again = f"soscope detach -p {attached.pid} tries again"
        lines.append(f"its hooks are still there: {attached.failure}; {again}")
    if attached.left:
        words = plural(attached.left, "word")
        lines.append(f"{words} left as somebody else has made them")
    if attached.kept:
        words = plural(attached.kept, "slot")
        lines.append(f"{words} of unwinders left: calls may still return through the agent")
    if verbose:
        stop = attached.longest_stop_ns / 1e6
        lines.append(f"{plural(attached.restored, 'word')} restored; longest stop {stop:.1f} ms")
    return lines


# Waits of threads for a processor, in words and in JSON.

_LITTLE = 0.01  # share of the traced time that is worth a line


def delay_lines(delays: Delays) -> list[str]:
    """Return how much of the traced time was waiting, and what is not known about it."""
    lines = []
    if delays.share >= _LITTLE:
        waited = f"threads waited {time_text(delays.waited_ns)} for a processor"
        part = f"{100 * delays.share:.3g} % of the traced time"
        without = "" if delays.unknown else "; the times are without it"
        lines.append(f"{waited}, {part}{without}")
    if delays.unknown:
        lines.append(
            f"{plural(delays.unknown, 'time')} a thread may have waited for a processor, and nobody"
            " knows how long: that is in the times"
        )
    return lines


def delay_members(delays: Delays) -> dict[str, object]:
    """Return the waits as members of a JSON object."""
    return {
        "waited_ns": delays.waited_ns,
        "waited_of_ns": delays.over_ns,
        "waits_unknown": delays.unknown,
    }

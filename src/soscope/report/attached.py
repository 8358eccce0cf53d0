# SPDX-License-Identifier: Apache-2.0
"""Lines about how soscope left processes that ran before, for people."""

from __future__ import annotations

from soscope.control.outcome import AttachedOutcome, Outcome
from soscope.report.words import plural


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

# SPDX-License-Identifier: Apache-2.0
"""Events of processes that end open calls, and how they end them."""

from __future__ import annotations

from soscope.model.call import ENDED_EXIT, ENDED_KILLED, ProcessExit, ProcessStart
from soscope.recording.sink import Told


def ends_calls(event: Told) -> bool:
    """Return whether `event` ends the open calls of its process."""
    return isinstance(event, ProcessExit) or (
        isinstance(event, ProcessStart) and event.event == "exec"
    )


def how_ended(event: Told) -> str:
    """Return whether the calls that are open at `event` end by exit or by a signal."""
    killed = isinstance(event, ProcessExit) and event.signal is not None
    return ENDED_KILLED if killed else ENDED_EXIT

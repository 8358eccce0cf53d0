# SPDX-License-Identifier: Apache-2.0
"""Find out whether a session needs the agent or can use another engine."""

from __future__ import annotations

from soscope.control.instrument import Instrument
from soscope.control.settings import SessionSettings
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = (layout.INSTRUMENT_TRACE, layout.INSTRUMENT_STATS, layout.INSTRUMENT_COUNT)


def needing_agent(settings: SessionSettings, instruments: Sequence[Instrument]) -> str:
    """Return the option or feature that needs an agent in the program, or "" if none does."""
    if settings.gate is not None:  # the gate's functions are hooked beside the trace's own
        return "--on, --off or --toggle"
    if settings.flight is not None:
        return "--last"
    hooking = [each.hooks for each in instruments if each.hooks is not None]
    if len(hooking) != 1 or hooking[0].kind not in _KINDS:
        return "anything but a trace"
    return "-k" if hooking[0].flags & layout.PLAN_STACKS else ""

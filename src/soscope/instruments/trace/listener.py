# SPDX-License-Identifier: Apache-2.0
"""Who hears of the events of a trace while it runs.

The instrument does not print: whoever starts it hands in a listener, and the reports are
listeners. (A *sink* of the recording takes raw chunks; a listener takes calls.)
"""

from __future__ import annotations

from soscope.instruments.trace.filter import Selection
from soscope.instruments.trace.outcome import Outcome
from soscope.model.call import Event
from soscope.prototypes import Prototypes


class Listener:
    """Takes the events of one trace, in order of their time. This one forgets them.

    The calls come in the order begin, any number of `events` and `idle`, end. Nothing that
    a listener does may disturb the target: errors of its output are its own to keep.
    """

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Get ready for the calls that the filter `selection` chooses."""

    def events(self, batch: list[Event]) -> None:
        """Take some events that happened."""

    def idle(self) -> None:
        """Show what is half shown: nothing has happened for a while, or the target waits."""

    def end(self, outcome: Outcome) -> None:
        """Finish: no event will follow."""

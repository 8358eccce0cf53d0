# SPDX-License-Identifier: Apache-2.0
"""Shows all events to the tracker of descriptors, before a filter removes some."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.descriptors import Descriptors
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.model.call import Event
    from soscope.prototypes import Prototypes
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection


class ObservedListener(Listener):
    """Passes everything on to `listener` after `descriptors` has processed it."""

    takes_stretches = False

    def __init__(self, listener: Listener, descriptors: Descriptors) -> None:
        self._listener = listener
        self._descriptors = descriptors
        self.wants_durations = listener.wants_durations

    def meet(self, programs: Programs) -> None:
        """Pass the call on to the listener."""
        self._descriptors.meet(programs)
        self._listener.meet(programs)

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Pass the call on to the listener."""
        self._descriptors.begin(prototypes)
        self._listener.begin(prototypes, selection)

    def begun(self) -> None:
        """Pass the call on to the listener."""
        self._listener.begun()

    def events(self, batch: list[Event]) -> None:
        """Pass on events."""
        self._descriptors.observe(batch)
        self._listener.events(batch)

    def caught_up(self, time_ns: int) -> None:
        """Pass the call on to the listener."""
        self._listener.caught_up(time_ns)

    def end(self, outcome: TraceOutcome) -> None:
        """Pass on the end, with remarks about how reliable the names of descriptors are."""
        outcome.remarks += self._descriptors.remarks()
        self._listener.end(outcome)
        self.shown = self._listener.shown

# SPDX-License-Identifier: Apache-2.0
"""Run a command, or attach to a process, in a session that records a profile."""

from __future__ import annotations

from soscope.control.outcome import Outcome
from soscope.control.session import Session
from soscope.control.settings import DEFAULT_BUFFER, Instrument, SessionSettings
from soscope.instruments.prof.model import ProfSettings
from soscope.model.call import ProcessExit
from soscope.proc.status import command_words, process_ns
from soscope.recording.sink import Sink, Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.wire.block import ControlBlock


class ProcessorTime(Sink):
    """Measures how long all threads of some processes have run since each process was met.

    If a process ends between two looks and another process has waited for it, the last known time
    counts.
    """

    __slots__ = ("_begun", "_is_over", "_ran")

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, int]] = {}  # time at the beginning, and now
        self._ran = 0  # of ended processes
        self._is_over = False

    @property
    def total_ns(self) -> int:
        """Return the sum of the processor times, in ns."""
        return self._ran + sum(ran - begun for begun, ran in self._begun.values())

    def begin(self, pid: int) -> None:
        """Count a process's time from now on. After an exec it is still the same process."""
        if pid not in self._begun:
            try:
                ran = process_ns(pid)
            except OSError:
                return  # the process or thread has ended
            self._begun[pid] = ran, ran

    def look(self, pid: int) -> None:
        """Update the time of a process, if it is one of them."""
        known = self._begun.get(pid)
        if known is not None and not self._is_over:
            try:
                self._begun[pid] = known[0], max(process_ns(pid), known[1])
            except OSError:
                pass  # the process has ended, and its parent has waited for it

    def look_at_all(self) -> None:
        """Update the times of all processes that have not ended."""
        for pid in list(self._begun):
            self.look(pid)

    def end(self) -> None:
        """Update the times for the last time, although the processes go on."""
        self.look_at_all()
        self._is_over = True

    def event(self, event: Told) -> None:
        """Note the end of a process, because another process may get its number."""
        if isinstance(event, ProcessExit) and event.pid in self._begun:
            self.look(event.pid)  # works if its parent has not waited for it yet
            begun, ran = self._begun.pop(event.pid)
            self._ran += ran - begun


class _About(Instrument):
    """Writes to the recording what is profiled, whatever instruments do that."""

    name = "prof"

    def __init__(self, settings: ProfSettings) -> None:
        self._settings = settings
        self._ran = ProcessorTime()

    def options(self) -> dict[str, object]:
        """Return the options that a report needs."""
        settings = self._settings
        said: dict[str, object] = {
            "mode": settings.mode,
            "boundary": settings.boundary,
            "images": settings.images,
            "chosen": settings.is_chosen,
        }
        if settings.pid is not None:
            said["command"] = command_words(settings.pid)
        return {"prof": said}

    def begun(self) -> None:
        """See the base class."""
        self._settings.begun()

    def sinks(self) -> list[Sink]:
        """Return the sink that takes note of ends."""
        return [self._ran]

    def process(self, pid: int, block: ControlBlock) -> None:
        """Measure the processor time of a process."""
        del block
        self._ran.begin(pid)

    def without_agent(self, pid: int, reason: str) -> None:
        """Measure the processor time of a process."""
        del reason
        self._ran.begin(pid)

    def news(self, pid: int) -> None:
        """Update the time of a process, perhaps for the last time."""
        self._ran.look(pid)

    def move(self) -> bool:
        """Update the times of all processes, at intervals."""
        self._ran.look_at_all()
        return False

    def stopping(self, block: ControlBlock) -> None:
        """Update the times for the last time before processes continue without soscope."""
        del block
        self._ran.end()

    def totals(self) -> dict[str, object]:
        """Return how long the processes have run."""
        return {"processor_ns": self._ran.total_ns}


def instruments_of(settings: ProfSettings) -> list[Instrument]:
    """Return the instruments for the settings. Raises UsageError."""
    instruments: list[Instrument] = [_About(settings)]
    if settings.boundary is not None:
        from soscope.instruments.prof.boundary import BoundaryInstrument

        instruments.append(BoundaryInstrument(settings.boundary, settings.images))
    if settings.mode is not None:
        from soscope.instruments.prof.instrumented import InstrumentedCode

        instruments.append(
            InstrumentedCode(settings.mode, settings.images, period=settings.interval)
        )
    if settings.sample is not None:
        from soscope.instruments.prof.sampling.instrument import SamplingInstrument

        is_alone = settings.boundary is None and settings.mode is None
        instruments.append(
            SamplingInstrument(settings.sample, is_alone=is_alone, follows=settings.follow)
        )
    return instruments


def run_prof(settings: ProfSettings, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run the command to its end, or stay attached to the process, and record a profile.

    Raises UsageError, LaunchError, AttachError, AgentError and RecordingError before anything is
    recorded.
    """
    session = Session(
        SessionSettings(
            settings.command,
            pids=[] if settings.pid is None else [settings.pid],
            follow=settings.follow,
            record=settings.record,
            duration_ns=settings.duration_ns,
            buffer=settings.buffer or DEFAULT_BUFFER,
            # A process that was attached to does not wait for soscope when the ring is full.
            when_full=settings.when_full or ("block" if settings.pid is None else "drop"),
        ),
        instruments_of(settings),
        tell,
    )
    return session.run()

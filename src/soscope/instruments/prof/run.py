# SPDX-License-Identifier: Apache-2.0
"""Run a command, or go into a process, in a session that records a profile."""

from __future__ import annotations

from _collections_abc import Callable

from soscope.control.instrument import Instrument
from soscope.control.outcome import Outcome
from soscope.control.session import Session
from soscope.control.settings import DEFAULT_BUFFER, SessionSettings
from soscope.instruments.prof.settings import ProfSettings
from soscope.proc.named import command_words


class _About(Instrument):
    """Says in the recording what is profiled, whatever does it."""

    name = "prof"

    def __init__(self, settings: ProfSettings) -> None:
        self._settings = settings

    def options(self) -> dict[str, object]:
        """Return what a report has to know."""
        settings = self._settings
        said: dict[str, object] = {
            "mode": settings.mode,
            "boundary": settings.boundary,
            "images": settings.images,
        }
        if settings.pid is not None:
            said["command"] = command_words(settings.pid)
        return {"prof": said}

    def begun(self) -> None:
        """Say so."""
        self._settings.begun()


def instruments_of(settings: ProfSettings) -> list[Instrument]:
    """Return the instruments that record what is wanted. Raises UsageError."""
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
    """Run the command to its end, or stay in the process, and record it.

    Raises UsageError, LaunchError, AttachError, AgentError and RecordingError before anything is
    recorded.
    """
    session = Session(
        SessionSettings(
            settings.command,
            pids=None if settings.pid is None else [settings.pid],
            follow=settings.follow,
            record=settings.record,
            duration_ns=settings.duration_ns,
            buffer=settings.buffer or DEFAULT_BUFFER,
            # a program that was running before does not wait for who looks at it
            when_full=settings.when_full or ("block" if settings.pid is None else "drop"),
        ),
        instruments_of(settings),
        tell,
    )
    return session.run()

# SPDX-License-Identifier: Apache-2.0
"""Read a recording back: the same events and the same outcome as when it was made."""

from __future__ import annotations

import os

from soscope.errors import SoscopeError
from soscope.instruments.trace.filter import Selection, compile_selection
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import (
    STOPPED_CUT,
    STOPPED_DURATION,
    STOPPED_FULL,
    STOPPED_LIMIT,
    Outcome,
    ProgramOutcome,
    Programs,
)
from soscope.instruments.trace.settings import MODE_TRACE
from soscope.model.call import Entry, Event
from soscope.prototypes import load
from soscope.recording.names import Program
from soscope.recording.reader import Recording
from soscope.recording.stream import events
from soscope.wire import layout

_BATCH = 1000
_WANTED = (STOPPED_DURATION, STOPPED_LIMIT, STOPPED_FULL)


class Replay:
    """An open recording; `mode` says what was recorded (see settings.MODE_)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open it. Raises FormatError or RecordingError."""
        self.recording = Recording.open(path)
        options = self.recording.meta.get("options")
        self._options: dict[str, object] = options if isinstance(options, dict) else {}
        self.mode = str(self._options.get("mode") or MODE_TRACE)
        command = self.recording.meta.get("command")
        self.command = [str(word) for word in command] if isinstance(command, list) else []
        self.selection = self._selection()

    def close(self) -> None:
        """Close the file."""
        self.recording.close()

    def run(self, listener: Listener) -> Outcome:
        """Hand everything to `listener`; return the outcome. Can be done once."""
        listener.begin(load(), self.selection)
        calls = 0
        batch: list[Event] = []
        if self.mode == MODE_TRACE:
            for event in events(self.recording):
                batch.append(event)
                if len(batch) == _BATCH:
                    calls += sum(isinstance(one, Entry) for one in batch)
                    listener.events(batch)
                    batch = []
            calls += sum(isinstance(one, Entry) for one in batch)
            listener.events(batch)
        outcome = self._outcome(calls if self.mode == MODE_TRACE else None)
        listener.end(outcome)
        return outcome

    def _words(self, name: str) -> list[str]:
        words = self._options.get(name)
        return [str(word) for word in words] if isinstance(words, list) else []

    def _selection(self) -> Selection:
        """Compile the filter again, for what it says of the form of lines."""
        try:
            return compile_selection(self._words("select"), self._words("from"), self._words("to"))
        except SoscopeError:  # another version wrote it, or it is damaged
            return compile_selection([], ["all"])

    def _outcome(self, calls: int | None) -> Outcome:
        recording = self.recording
        end = recording.end or {}
        why = recording.why
        stopped = ""
        remarks = []
        if not recording.complete:
            stopped = why if why in _WANTED else STOPPED_CUT
        if recording.damage is not None:
            remarks.append(f"{recording.path}: {recording.damage}")
        programs = Programs()
        for program in recording.programs.all():
            programs.add(self._program(program))
        return Outcome(
            self.command,
            self.selection,
            status=_number(end.get("status")),
            signal=_number(end.get("signal")),
            programs=programs.all(),
            calls=calls,
            dropped=recording.losses.messages(),
            stopped=stopped,
            remarks=remarks,
        )

    def _program(self, program: Program) -> ProgramOutcome:
        matched = program.facts.get("rules_matched")
        return ProgramOutcome(
            program.index,
            program.path,
            list(program.images().values()),
            program.slots(),
            counts=self.recording.counts.get(program.index),
            stats=self.recording.stats.get(program.index),
            ns_per_tick=self.recording.clock.rate,
            rules_matched=[int(n) for n in matched] if isinstance(matched, list) else [],
            slots_left=program.fact("slots_left"),
            loader_refused=program.fact("loader_hook") == layout.LOADER_REFUSED,
            errno_known=bool(program.fact("agent_flags") & layout.AGENT_ERRNO),
        )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None

# SPDX-License-Identifier: Apache-2.0
"""Make a profile from a recording."""

from __future__ import annotations

from soscope.control.outcome import ChildPrograms, Price, cost_lines
from soscope.errors import RecordingError
from soscope.instruments.prof.model import COMPLETE, CUT, DISK_FULL, MODE_LOG, Profile
from soscope.proc.status import signal_name
from soscope.recording.reader import RecordingFile
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_NO_CLOCK = "times are too small: calls are only counted while it forbids itself the clock"
_TIMED = ("time", "sample", "log")  # modes in which calls have times


def profile_of(
    recording: RecordingFile,
    *,
    timeline: bool = False,
    lines: bool = False,
    sample_lines: bool = True,
) -> Profile:
    """Return the profile of a recording of `soscope prof`.

    With `timeline` it has single calls, too. With `lines` it has file and line of called
    functions as far as debug information has them, and with `sample_lines` also of
    sampled frames. Raises RecordingError if the recording is about something else.
    """
    recording.expect("prof")
    options = prof_options(recording)
    if options is None:
        raise RecordingError(f"'{recording.path}' is damaged: it does not say what was profiled")
    end = recording.end or {}
    killed = _number(end.get("signal"))
    profile = Profile(
        _command(recording, options),
        state=_state(recording),
        status=_number(end.get("status")),
        signal=None if killed is None else signal_name(killed),
        mode=_word(options.get("mode")),
        boundary=_word(options.get("boundary")),
    )
    profile.is_chosen = options.get("chosen") is True
    profile.processor_ns = _number(recording.totals.get("processor_ns"))
    if isinstance(whys := recording.totals.get("not_sampled"), list):
        profile.not_sampled = [str(why) for why in whys]
    if timeline and profile.mode == MODE_LOG:
        profile.timeline = []
    if recording.reported or profile.boundary is not None or profile.mode == MODE_LOG:
        _add_calls(recording, profile, lines=lines)
        if profile.boundary in _TIMED or profile.mode in _TIMED:
            profile.notes += _without_clock(recording)
            for program in recording.programs.all():
                profile.delays.add(program.delays(recording.clock))
        profile.notes += _unmet(recording, options)
    if recording.samples:
        from soscope.instruments.prof.samples import add_samples

        add_samples(recording.samples, profile, with_lines=sample_lines)
    profile.dropped += sum(count for count, _ in recording.losses.messages())
    profile.notes += [f"{count:,} lost: {why}" for count, why in recording.losses.messages()]
    profile.cost = Price.of(end.get("cost"))
    profile.executed = ChildPrograms.of(end.get("executed"))
    profile.notes += [*recording.lacking, *profile.executed.lines()]
    profile.notes += cost_lines(profile.cost, "profiling")
    profile.state = _state(recording)  # single calls have been read by now
    if recording.damage is not None:
        profile.notes.append(f"{recording.path}: {recording.damage}")
    return profile


def _add_calls(recording: RecordingFile, profile: Profile, *, lines: bool) -> None:
    from soscope.instruments.prof.boundary import add_boundary, unseen_tables
    from soscope.instruments.prof.names import RecordedNames
    from soscope.instruments.prof.reportedtree import add_reported
    from soscope.instruments.prof.views import ArcSums

    sums, names = ArcSums(profile), RecordedNames(with_lines=lines)
    if recording.reported or profile.mode == MODE_LOG:
        add_reported(recording, profile, sums, names)
    if profile.boundary is not None:
        add_boundary(recording, sums, names)
        profile.notes += unseen_tables(recording.programs.all())
    sums.finish()
    profile.notes += names.notes


def _without_clock(recording: RecordingFile) -> list[str]:
    """Return notes about programs in which some calls have no time."""
    paths = {
        program.path
        for program in recording.programs.all()
        if program.fact("agent_flags") & layout.AGENT_TSC_OFF
    }
    return [f"{path}: {_NO_CLOCK}" for path in sorted(paths)]


def _unmet(recording: RecordingFile, options: dict[str, Any]) -> list[str]:
    patterns = options.get("images")
    images = [image for program in recording.programs.all() for image in program.images().values()]
    if not isinstance(patterns, list) or not images:
        return []
    from soscope.instruments.prof.views import unmet

    return unmet([str(pattern) for pattern in patterns], images)


def prof_options(recording: RecordingFile) -> dict[str, Any] | None:
    """Return how a profile was recorded, None if the recording is about something else."""
    said = recording.options.get("prof")
    return said if isinstance(said, dict) else None


def _command(recording: RecordingFile, options: dict[str, Any]) -> list[str]:
    words = recording.meta.get("command") or options.get("command")
    return [str(word) for word in words] if isinstance(words, list) else []


def _state(recording: RecordingFile) -> str:
    if recording.trouble is not None:
        return DISK_FULL if recording.trouble.is_full else CUT
    if recording.damage is None and recording.end is not None:
        return COMPLETE
    return CUT


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None

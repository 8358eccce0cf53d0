# SPDX-License-Identifier: Apache-2.0
"""From a recording to a profile."""

from __future__ import annotations

import signal

from soscope.errors import RecordingError
from soscope.instruments.prof.model import COMPLETE, CUT, DISK_FULL, Profile
from soscope.recording.reader import RecordingFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def profile_of(recording: RecordingFile) -> Profile:
    """Return what a recording of `soscope prof` says.

    Raises RecordingError for a recording of something else.
    """
    options = prof_options(recording)
    if options is None:
        raise RecordingError(f"'{recording.path}' is not a recording of soscope prof")
    end = recording.end or {}
    profile = Profile(
        _command(recording, options),
        state=_state(recording),
        status=_number(end.get("status")),
        signal=_signal_name(_number(end.get("signal"))),
        mode=_word(options.get("mode")),
        boundary=_word(options.get("boundary")),
    )
    if recording.reported or profile.boundary is not None:
        _add_calls(recording, profile)
        profile.notes += _unmet(recording, options)
    if recording.samples:
        from soscope.instruments.prof.samples import add_samples

        add_samples(recording.samples, profile)
    profile.dropped += sum(count for count, _ in recording.losses.messages())
    profile.notes += [f"{count:,} lost: {why}" for count, why in recording.losses.messages()]
    if recording.damage is not None:
        profile.notes.append(f"{recording.path}: {recording.damage}")
    return profile


def _add_calls(recording: RecordingFile, profile: Profile) -> None:
    from soscope.instruments.prof.boundaryarcs import add_boundary
    from soscope.instruments.prof.recordednames import RecordedNames
    from soscope.instruments.prof.reportedtree import add_reported
    from soscope.instruments.prof.sums import ArcSums

    sums, names = ArcSums(profile), RecordedNames()
    if recording.reported:
        add_reported(recording, profile, sums, names)
    if profile.boundary is not None:
        add_boundary(recording, sums, names)
    sums.finish()
    profile.notes += names.notes


def _unmet(recording: RecordingFile, options: dict[str, Any]) -> list[str]:
    patterns = options.get("images")
    images = [image for program in recording.programs.all() for image in program.images().values()]
    if not isinstance(patterns, list) or not images:
        return []
    from soscope.instruments.prof.unmet import unmet

    return unmet([str(pattern) for pattern in patterns], images)


def prof_options(recording: RecordingFile) -> dict[str, Any] | None:
    """Return how a profile was recorded; None: the recording is one of something else."""
    options = recording.meta.get("options")
    said = options.get("prof") if isinstance(options, dict) else None
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


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"

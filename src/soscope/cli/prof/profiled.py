# SPDX-License-Identifier: Apache-2.0
"""Records a profile and formats it, for the verbs that record profiles."""

from __future__ import annotations

import os

from soscope.cli.main import note
from soscope.instruments.prof.model import ProfSettings
from soscope.report.output import Form
from soscope.verbs.prof.run import What

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome


def settings_of(what: What, command: list[str]) -> ProfSettings:
    """Return the settings. If no mode is given, it is chosen later."""
    settings = ProfSettings(command, "", images=what.images, follow=what.follow)
    if what.mode is not None:
        settings.mode, settings.interval = what.mode.name, what.mode.interval
    settings.boundary, settings.sample = what.boundary, what.sample
    settings.buffer, settings.when_full = what.buffer, what.when_full
    return settings


def profiled(
    settings: ProfSettings, path: str | None, form: Form, *, quiet: bool
) -> tuple[Outcome, str | None]:
    """Profile. Return the outcome, and the text to show.

    The text is None if `path` is a file for the recording.
    """
    from soscope.cli.early import Early
    from soscope.cli.nameless import nameless
    from soscope.instruments.prof.run import run_prof

    if settings.mode is None and settings.boundary is None and settings.sample is None:
        from soscope.instruments.prof.run import choose

        choose(settings)
    early = Early()
    tell = None if quiet else early
    descriptor = None if path is not None else nameless()
    try:
        settings.record = path or f"/proc/self/fd/{descriptor}"
        outcome = run_prof(settings, tell)
        early.finish()
        if settings.is_chosen and not quiet:
            from soscope.instruments.prof.run import overlooked

            images = [image for program in outcome.programs for image in program.images]
            outcome.remarks += overlooked(settings, images)
        return outcome, None if descriptor is None else _shown(settings.record, form)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _shown(path: str, form: Form) -> str:
    from soscope.instruments.prof.run import profile_of
    from soscope.recording.reader import RecordingFile

    with RecordingFile.open(path) as recording:
        profile = profile_of(recording, sample_lines=bool(form))  # text has no lines
    if form:
        from soscope.report.prof import document

        return form.shaped(document(profile))
    from soscope.report.prof import text

    shown = text(profile)
    return f"soscope: {shown}" if profile.is_chosen and profile.own_ns is not None else shown


def say_notes(outcome: Outcome, settings: ProfSettings) -> None:
    """Print what could not be profiled, and how a process was left."""
    from soscope.control.cost import cost_lines
    from soscope.proc.status import NOT_HOOKED, in_full
    from soscope.report.remarks import attached_lines

    for line in (*outcome.remarks, *attached_lines(outcome)):
        note(line)
    for path, reason in outcome.untraced:
        if reason in NOT_HOOKED and settings.sample is not None:
            note(f"{path}: {NOT_HOOKED[reason]}")
        else:
            note(f"{path}: not profiled: {in_full(reason)}")
    for count, why in outcome.dropped:
        note(f"{count:,} events lost: {why}")
    if outcome.record is not None and not outcome.record.startswith("/proc/self/fd/"):
        # Else the profile has them.
        for line in (*outcome.executed.lines(), *cost_lines(outcome.cost, "profiling")):
            note(line)
        note(f"recording: {outcome.record}; show it: soscope prof report {outcome.record}")

# SPDX-License-Identifier: Apache-2.0
"""Exports a recording of `soscope prof` for other programs."""

from __future__ import annotations

from shlex import quote

from soscope.cli.main import note
from soscope.errors import RecordingError, UsageError
from soscope.export.profiles import LINED_FORMATS, PROFILE_FORMATS, TIMED_FORMATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile
    from soscope.recording.reader import RecordingFile
    from soscope.verbs.export import ExportOptions


def export_profile(recording: RecordingFile, options: ExportOptions) -> int:
    """Write the profile. Return 0, or 1 if the recording is damaged or incomplete."""
    from soscope.instruments.prof.model import COMPLETE, EMPTY
    from soscope.instruments.prof.run import profile_of
    from soscope.report.prof import untold_functions

    name = options.format
    if name not in PROFILE_FORMATS:
        raise RecordingError(
            f"{options.path}: it is a profile, and {name} is for single calls",
            hint=f"--format {', '.join(PROFILE_FORMATS)}",
        )
    profile = profile_of(recording, timeline=name in TIMED_FORMATS, lines=name in LINED_FORMATS)
    if profile.is_empty and profile.state == COMPLETE and name != "json":
        raise RecordingError(f"'{options.path}' {EMPTY}")
    notes = _gmon(profile, options) if name == "gmon" else _file(profile, options)
    said = [] if name == "json" else untold_functions(profile)  # JSON has the error of each time
    for line in [*profile.notes, *said, *notes]:
        note(line)
    if profile.state != COMPLETE and recording.damage is None:
        note(f"the recording ends early: {recording.why or profile.state}")
    return 0 if profile.state == COMPLETE else 1


def _file(profile: Profile, options: ExportOptions) -> list[str]:
    """Write the one file of a format. Return notes."""
    from importlib import import_module

    from soscope.verbs.files import WholeFile

    with WholeFile(options.output, not_over=options.path) as file:
        if options.format == "json":
            from soscope.report.prof import document

            file.write(document(profile).encode("utf-8", "surrogateescape"))
            return []
        module = import_module(f"soscope.export.{options.format}")
        notes: list[str] = module.export_profile(profile, file.write, options.settings)
        if module.VIEWER and not file.is_stdout:
            notes.append(f"{options.format}: {module.VIEWER.replace('FILE', quote(file.path))}")
        return notes


def _gmon(profile: Profile, options: ExportOptions) -> list[str]:
    """Write two files for each image. Return notes, with the command to type."""
    from soscope.export.gmon import export_files, gprof_line
    from soscope.verbs.files import WholeFile

    if options.output == "-":
        raise UsageError("gmon is several files, and standard output is one")
    made, notes = export_files(profile)
    if not made:
        raise RecordingError(f"{options.path}: no function of an image was called or sampled")
    for files in made:
        stem = f"{options.output}.{files.name}" if files.name else options.output
        paths = f"{stem}.gmon", f"{stem}.sym"
        for path, content in zip(paths, (files.gmon, files.sym), strict=True):
            with WholeFile(path, not_over=options.path) as file:
                file.write(content)
        notes.append(f"gmon: {gprof_line(files, *paths)}")
    return notes

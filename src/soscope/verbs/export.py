# SPDX-License-Identifier: Apache-2.0
"""`soscope export`: write a recording for other programs."""

from __future__ import annotations

from shlex import quote

from soscope.errors import RecordingError, UsageError
from soscope.export.profiles import (
    FORMATS,
    LINED_FORMATS,
    PROFILE_FORMATS,
    TIMED_FORMATS,
    WEIGHTS,
    ExportSettings,
    format_of,
)
from soscope.model.record import Record
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import Option, Verb, output_option, parse_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile
    from soscope.instruments.trace.replay import Replay
    from soscope.recording.reader import RecordingFile
    from soscope.verbs.files import WholeFile


VERB = Verb(
    "export",
    output_option("OUT", "write OUT; -: standard output"),
    "what to write",
    Option(
        "--format",
        metavar="FORMAT",
        help="perfetto, chrome, firefox, speedscope, folded; of calls parquet, csv, jsonl; of "
        "profiles gmon, callgrind, pprof, otlp, json (by OUT's ending)",
    ),
    Option(
        "--weight",
        metavar="ns|calls|samples",
        help="folded: what a stack weighs, its self time (ns), its calls or its samples",
    ),
    Option(
        "-s",
        "--string-limit",
        metavar="N",
        default=32,
        convert=parse_count,
        help="bytes of a string to show (32)",
    ),
    usage="soscope export [options] -o OUT REC",
    short="""\
Write the calls of a recording that soscope trace --record made, or the profile of one that soscope
prof -o made, for another program.

  -o
  --format

  soscope export -o run.pftrace run.sosr     # for ui.perfetto.dev
  soscope export -o run.folded run.sosr      # for flamegraph.pl
  soscope export --format gmon -o run run.sosr   # for gprof
""",
    description="""\
Write a recording for another program: the calls that soscope trace --record has recorded, or the
profile that soscope prof -o has recorded. OUT holds either all of it or what it held before.
Nothing of the target is needed. gmon makes two files for each image, OUT.IMAGE.gmon and
OUT.IMAGE.sym, and soscope prints the command for gprof.
""",
    epilog="""\
endings: .pftrace and .perfetto-trace, .chrome.json, .firefox.json, .speedscope.json, .folded,
.parquet, .csv, .jsonl; of profiles also .callgrind, .pprof and .pb.gz, .otlp, .json.

exit status: 0 fine, 1 the recording is damaged or not complete, or has not what the format is for,
or OUT cannot be written, 2 wrong usage.
""",
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


class _Options(Record):
    """What is written: the recording at `path`, as `format`, to `output`."""

    path: str
    output: str
    format: str
    settings: ExportSettings


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is damaged or incomplete."""
    values, (path,) = invocation.read(VERB)
    if values.output is None:
        raise VERB.wrong("no file to write")
    chosen = values.format or format_of(values.output)
    known = ", ".join(FORMATS)
    if chosen is None:
        hint = f"--format {known}"
        raise UsageError(f"the ending of '{values.output}' means no format", hint=hint)
    if chosen not in FORMATS:
        raise UsageError(f"there is no format '{chosen}'", hint=f"the formats: {known}")
    settings = ExportSettings(string_limit=values.string_limit)
    if values.weight is not None:
        if values.weight not in WEIGHTS:
            raise UsageError(f"--weight is '{values.weight}', neither ns nor calls nor samples")
        if chosen != "folded":
            raise UsageError(f"--weight is for folded stacks, and {chosen} has none")
        settings.weight = values.weight
    options = _Options(path, values.output, chosen, settings)

    from soscope.recording.reader import RecordingFile

    with RecordingFile.open(options.path) as recording:
        recording.expect("trace", "prof")
        if recording.family == "prof":
            return export_profile(recording, options)
        return _calls(recording, options)


def _calls(recording: RecordingFile, options: _Options) -> int:
    """Write single calls. Return the exit status."""
    from soscope.export.profiles import CALL_FORMATS, WEIGHS_SAMPLES
    from soscope.instruments.trace.listener import stack_remarks
    from soscope.instruments.trace.replay import Replay
    from soscope.instruments.trace.settings import MODE_TRACE
    from soscope.verbs.files import WholeFile

    replay = Replay(recording)
    try:
        if options.format not in CALL_FORMATS:
            raise RecordingError(
                f"{options.path}: {options.format} is for recordings of soscope prof",
                hint=f"--format {', '.join(CALL_FORMATS)}",
            )
        if options.settings.weight == WEIGHS_SAMPLES:
            raise RecordingError(f"{options.path}: it has no samples, which --weight asks for")
        if replay.mode != MODE_TRACE:
            raise RecordingError(
                f"{options.path}: it has no calls, only their numbers",
                hint="record them: soscope trace --record, without -c and --count-only",
            )
        if replay.is_empty and replay.recording.complete:
            raise RecordingError(f"'{options.path}' is a recording of soscope trace without a call")
        with WholeFile(options.output, not_over=options.path) as file:
            notes = recording.lacking + _write(replay, options.format, file, options.settings)
        notes += stack_remarks(recording.totals)
        if recording.damage is not None:
            notes.append(f"{recording.path}: {recording.damage}")
        elif not recording.complete:
            notes.append(f"the recording ends early: {recording.why}")
        note(*notes)
        return 0 if recording.complete else 1
    finally:
        replay.close()


def _write(replay: Replay, name: str, file: WholeFile, settings: ExportSettings) -> list[str]:
    """Write all calls. Return notes, the last of which tells what program reads the file."""
    if name == "jsonl":
        return _json_lines(replay, file, settings)
    from importlib import import_module

    module = import_module(f"soscope.export.{name}")
    notes: list[str] = module.export(replay, file.write, settings)
    viewer: str = module.VIEWER
    if viewer and not file.is_stdout:
        notes.append(f"{name}: {viewer.replace('FILE', file.path)}")
    return notes


def _json_lines(replay: Replay, file: WholeFile, settings: ExportSettings) -> list[str]:
    """Write the same output as `soscope trace --json`."""
    from soscope.report.output import Output
    from soscope.report.trace.display import Display
    from soscope.report.trace.json import JsonLinesListener

    output = Output(file.fd, file.path)
    display = Display(string_limit=settings.string_limit, stacks=replay.stack_depth)
    replay.run(JsonLinesListener(output, display))
    if output.error is not None:
        raise output.error
    return []


# Exports a recording of `soscope prof` for other programs.


def export_profile(recording: RecordingFile, options: _Options) -> int:
    """Write the profile. Return 0, or 1 if the recording is damaged or incomplete."""
    from soscope.instruments.prof.model import COMPLETE, EMPTY
    from soscope.instruments.prof.report import profile_of
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
    note(*profile.notes, *said, *notes)
    if profile.state != COMPLETE and recording.damage is None:
        note(f"the recording ends early: {recording.why or profile.state}")
    return 0 if profile.state == COMPLETE else 1


def _file(profile: Profile, options: _Options) -> list[str]:
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


def _gmon(profile: Profile, options: _Options) -> list[str]:
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

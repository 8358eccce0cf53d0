# SPDX-License-Identifier: Apache-2.0
"""`soscope export`: convert a recording for other programs."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.errors import RecordingError
from soscope.verbs.export import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from soscope.export.profiles import ExportSettings
    from soscope.instruments.trace.replay import Replay
    from soscope.verbs.export import ExportOptions
    from soscope.verbs.files import WholeFile


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is damaged or incomplete."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.recording.reader import RecordingFile

    with RecordingFile.open(options.path) as recording:
        recording.expect("trace", "prof")
        if recording.family == "prof":
            from soscope.cli.profileexport import export_profile

            return export_profile(recording, options)
    return _calls(options)


def _calls(options: ExportOptions) -> int:
    """Write single calls. Return the exit status."""
    from soscope.export.profiles import CALL_FORMATS, WEIGHS_SAMPLES
    from soscope.instruments.trace.listener import stack_remarks
    from soscope.instruments.trace.replay import Replay
    from soscope.instruments.trace.settings import MODE_TRACE
    from soscope.verbs.files import WholeFile

    replay = Replay(options.path)
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
            notes = _write(replay, options.format, file, options.settings)
        recording = replay.recording
        notes += stack_remarks((recording.end or {}).get("totals"))
        if recording.damage is not None:
            notes.append(f"{recording.path}: {recording.damage}")
        elif not recording.complete:
            notes.append(f"the recording ends early: {recording.why}")
        for line in notes:
            note(line)
        return 0 if recording.complete else 1
    finally:
        replay.close()


def _write(replay: Replay, name: str, file: WholeFile, settings: ExportSettings) -> list[str]:
    """Write all calls. Return notes, the last of which tells what program reads the file."""
    if name == "jsonl":
        return _json_lines(replay, file, settings)
    module = _module(name)
    notes: list[str] = module.export(replay, file.write, settings)
    viewer: str = module.VIEWER
    if viewer and not file.is_stdout:
        notes.append(f"{name}: {viewer.replace('FILE', file.path)}")
    return notes


def _module(name: str) -> ModuleType:
    from importlib import import_module

    return import_module(f"soscope.export.{name}")


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

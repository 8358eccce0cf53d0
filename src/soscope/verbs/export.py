# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope export`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.export.profiles import FORMATS, WEIGHTS, ExportSettings, format_of
from soscope.options.units import parse_count
from soscope.options.verb import Verb
from soscope.verbs.display import DEBUG
from soscope.verbs.options import VALUE, Option

USAGE = "soscope export [options] -o OUT REC"

SHORT = f"""\
usage: {USAGE}

Write the calls of a recording that soscope trace --record made, or the profile of one that soscope
prof -o made, for another program.

  -o OUT            the file; its ending says the format, or:
  --format FORMAT   perfetto, chrome, firefox, speedscope, folded, parquet, csv or jsonl;
                    of a profile also gmon, callgrind, pprof, otlp or json

  soscope export -o run.pftrace run.sosr     # for ui.perfetto.dev
  soscope export -o run.folded run.sosr      # for flamegraph.pl
  soscope export --format gmon -o run run.sosr   # for gprof

soscope export --help lists all options.
"""

DESCRIPTION = """\
Write the calls of a recording that soscope trace --record made, or the profile of one that soscope
prof -o made, for another program. OUT is made anew, and holds either all of it or what it held
before. Nothing of the target is needed. gmon is two files for each image, OUT.IMAGE.gmon and
OUT.IMAGE.sym, and what to type is said.
"""

EPILOG = """\
endings: .pftrace and .perfetto-trace, .chrome.json, .firefox.json, .speedscope.json, .folded,
.parquet, .csv, .jsonl; of profiles also .callgrind, .pprof and .pb.gz, .otlp, .json.

exit status: 0 fine, 1 the recording is damaged or not complete, or has not what the format is for,
or OUT cannot be written, 2 wrong usage.
"""

OPTIONS = [
    DEBUG,
    Option(
        "-o",
        "--output",
        dest="output",
        kind=VALUE,
        metavar="OUT",
        group="where to",
        help="write OUT; -: standard output",
    ),
    Option(
        "--format",
        dest="format",
        kind=VALUE,
        metavar="FORMAT",
        group="what to write",
        help="perfetto, chrome, firefox, speedscope, folded; of calls parquet, csv, jsonl; of "
        "profiles gmon, callgrind, pprof, otlp, json (by OUT's ending)",
    ),
    Option(
        "--weight",
        dest="weight",
        kind=VALUE,
        metavar="ns|calls|samples",
        group="what to write",
        help="folded: what a stack weighs, its self time (ns), its calls or its samples",
    ),
    Option(
        "-s",
        "--string-limit",
        dest="string_limit",
        kind=VALUE,
        metavar="N",
        default=32,
        convert=parse_count,
        group="what to write",
        help="bytes of a string to show (32)",
    ),
]

VERB = Verb(
    "export",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("REC", "the recording"),
    least=1,
    most=1,
)
make_parser = VERB.make_parser


class ExportOptions:
    """The parsed options of `soscope export`."""

    __slots__ = ("debug", "format", "output", "path", "settings")

    def __init__(
        self, path: str, output: str, format_: str, settings: ExportSettings, *, debug: bool
    ) -> None:
        self.path = path
        self.output = output
        self.format = format_
        self.settings = settings
        self.debug = debug


def parse(arguments: list[str]) -> ExportOptions:
    """Parse the words behind `soscope export`. Raises UsageError, or SystemExit for help."""
    values, (path,) = VERB.read(arguments)
    if values.output is None:
        raise UsageError("no file to write", hint=f"usage: {USAGE}")
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
    return ExportOptions(path, values.output, chosen, settings, debug=values.debug)

# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope inject --sweep`, which are rows of inject's table."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options import trace
from soscope.options.units import parse_count, parse_duration
from soscope.report.output import Form
from soscope.verbs.options import LIST, ONCE, VALUE, Option, Values

GROUP = "sweeping"

_WITHOUT = {  # options that a sweep does not use: dest -> option
    "rules": "-e",
    "pids": "-p",
    "seed": "--seed",
    "duration": "--duration",
    "time": "-t",
    "durations": "-T",
    "string_limit": "-s",
    "relative": "-r",
    "elements": "-A",
    "indent": "-n",
    "column": "-a",
    "places": "-i",
    "colour": "--color",
    "record": "--record",
    "buffer": "--buffer",
    "limit": "--limit",
    "when_full": "--when-full",
}
_ALONE = {"callers": "--from", "test": "--test", "jobs": "-j", "timeout": "--timeout"}


def _jobs(text: str) -> int:
    jobs = parse_count(text)
    if not 0 < jobs <= 1024:
        raise UsageError(f"'{text}' is no possible number of runs", hint="1 to 1024")
    return jobs


def _functions(text: str) -> str:
    if ":" in text or "=" in text:
        raise UsageError(
            f"'{text}' is not names of functions", hint="names or globs, separated by commas"
        )
    return text


def _callers(text: str) -> str:
    if not text or ":" in text:
        raise UsageError(f"'{text}' is no pattern of an image", hint="? stands for a colon")
    return text


SWEEP_OPTIONS = [
    Option(
        "--sweep",
        dest="sweep",
        kind=ONCE,
        metavar="SET",
        convert=_functions,
        group=GROUP,
        help="fail each call site of these functions once, in a run of its own",
    ),
    Option(
        "--from",
        dest="callers",
        kind=LIST,
        metavar="IMAGE",
        convert=_callers,
        group=GROUP,
        help="call sites in this image alone (repeatable): a name, a glob, a path, MAIN",
    ),
    Option(
        "--test",
        dest="test",
        kind=VALUE,
        metavar="SHELL",
        group=GROUP,
        help="status 0 says that the output, its standard input, is right",
    ),
    Option(
        "-j",
        "--jobs",
        dest="jobs",
        kind=VALUE,
        metavar="N",
        convert=_jobs,
        group=GROUP,
        help="runs at a time (the number of processors)",
    ),
    Option(
        "--timeout",
        dest="timeout",
        kind=VALUE,
        metavar="TIME",
        convert=parse_duration,
        group=GROUP,
        help="what takes longer hangs (ten times the first run, at least 5s)",
    ),
]


class SweepOptions:
    """The parsed options of `soscope inject --sweep`. `timeout` is in seconds."""

    __slots__ = (
        "callers",
        "command",
        "debug",
        "follow",
        "functions",
        "jobs",
        "json",
        "output",
        "quiet",
        "test",
        "timeout",
        "verbose",
    )

    def __init__(self, values: Values, command: list[str]) -> None:
        self.command = command
        self.functions: list[str] = values.sweep.split(",")
        self.callers: list[str] = values.callers
        self.follow = bool(values.follow)
        self.test: str | None = values.test
        self.jobs: int | None = values.jobs
        self.timeout: float | None = values.timeout / 1e9 if values.timeout else None
        self.json: Form = values.json
        self.output: str | None = values.output
        self.quiet: bool = values.quiet
        self.verbose: bool = values.verbose
        self.debug: bool = values.debug


def check_rest(options: list[Option], values: Values) -> None:
    """Refuse options of a sweep without a sweep, and of a trace with one. Raises UsageError."""
    defaults = Values(options)
    refused = _ALONE if values.sweep is None else _WITHOUT
    for dest, name in refused.items():
        if getattr(values, dest) != getattr(defaults, dest):
            if values.sweep is None:
                raise UsageError(f"{name} is for a sweep", hint="--sweep SET names its functions")
            raise UsageError(f"{name} does not go together with --sweep")


def sweep_options(values: Values, command: list[str], *, usage: str) -> SweepOptions:
    """Return the options of a sweep. Raises UsageError."""
    trace.check_target([], command, usage=usage)
    return SweepOptions(values, command)

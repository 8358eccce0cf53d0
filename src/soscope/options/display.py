# SPDX-License-Identifier: Apache-2.0
"""The display options: `soscope trace` and `soscope report` take the same."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from soscope.options.units import parse_count
from soscope.report.display import TIME_EPOCH, Display


def add_display_options(parser: ArgumentParser) -> None:
    """Add the options that change how calls are shown."""
    group = parser.add_argument_group("how to show them")
    group.add_argument(
        "-t",
        "--time",
        action="count",
        default=0,
        help="begin lines with the time; -tt: with microseconds; -ttt: as seconds since 1970",
    )
    group.add_argument(
        "-T", "--durations", action="store_true", help="end lines with the time in the call"
    )
    group.add_argument(
        "-s",
        "--string-limit",
        type=parse_count,
        default=32,
        metavar="N",
        help="bytes of a string to show (32)",
    )
    group.add_argument(
        "--json", action="store_true", help="JSON Lines, one for each event; with -c one document"
    )
    volume = group.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="no notes at the end")
    volume.add_argument("-v", "--verbose", action="store_true", help="more notes at the end")


def display_from(words: Namespace) -> Display:
    """Return what the display options say."""
    return Display(
        time=min(words.time, TIME_EPOCH),
        durations=words.durations,
        string_limit=words.string_limit,
        quiet=words.quiet,
        verbose=words.verbose,
    )

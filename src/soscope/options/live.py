# SPDX-License-Identifier: Apache-2.0
"""The option for the line of progress of a trace."""

from __future__ import annotations

from soscope.verbs.options import VALUE, Option

AUTO, ALWAYS, NEVER = "auto", "always", "never"

LIVE = Option(
    "--live",
    dest="live",
    kind=VALUE,
    metavar="WHEN",
    default=AUTO,
    choices=(AUTO, ALWAYS, NEVER),
    group="how to show them",
    help="a line on the terminal while nothing else is printed: auto, always, never",
)

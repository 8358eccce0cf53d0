# SPDX-License-Identifier: Apache-2.0
"""Options of the verbs that show a recording of memory or a profile: form and rows."""

from __future__ import annotations

from soscope.options.form import format_option
from soscope.options.units import parse_count
from soscope.verbs.options import VALUE, Option

HOW = "how to show it"

JSON = Option("--json", dest="json", group=HOW, help="one JSON document, for programs")
LIMIT = Option(
    "--limit",
    dest="rows",
    kind=VALUE,
    metavar="N",
    convert=parse_count,
    group=HOW,
    help="the N largest rows alone",
)
FORMAT = format_option(HOW)

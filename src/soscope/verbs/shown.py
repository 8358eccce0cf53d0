# SPDX-License-Identifier: Apache-2.0
"""The options of verbs that make a recording and show it: -f and -o."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.options import VALUE, Option

WHERE = "where to"

OUTPUT = Option(
    "-o",
    "--output",
    dest="output",
    kind=VALUE,
    metavar="REC",
    group=WHERE,
    help="keep a recording in the file REC, in place of what it holds",
)
QUIET = Option("-q", "--quiet", dest="quiet", group=WHERE, help="no notes at the end")


def follow_option(group: str) -> Option:
    """Return -f."""
    return Option(
        "-f",
        "--follow-forks",
        dest="follow",
        group=group,
        help="children, too; without it they change nothing",
    )


def check_form(form: Form, output: str | None, family: str) -> None:
    """Raise UsageError if a form is given although the recording is kept and not shown."""
    if form and output is not None:
        raise UsageError(
            f"-o REC and --format {form.name}: with -o nothing is shown",
            hint=f"soscope {family} report --format {form.name} REC shows it",
        )

# SPDX-License-Identifier: Apache-2.0
"""`--format`, of all verbs that report something, and its short form `--json`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.report.output import FORMS, JSON, TEXT, Form
from soscope.verbs.options import VALUE, Option, Values


def format_option(group: str, *more: str) -> Option:
    """Return the option. `more` are forms that only this verb has."""
    names = (*FORMS, *more)
    return Option(
        "--format",
        dest="form",
        kind=VALUE,
        metavar="|".join(names),
        choices=names,
        group=group,
        help="md: Markdown, one fact a line; --json is --format json",
    )


def settle(values: Values) -> None:
    """Set `values.json` to the form that --json and --format ask for together.

    `values.form` stays the value of --format, TEXT if it was not given. Raises UsageError.
    """
    if not hasattr(values, "form"):
        return
    if values.json and values.form not in (None, JSON):
        raise UsageError(f"--json and --format {values.form} are two forms")
    if values.form is None:
        values.form = JSON if values.json else TEXT
    form = Form(values.form if values.form in FORMS else TEXT, getattr(values, "top", None))
    if form.is_markdown and hasattr(values, "rows"):
        form.most, values.rows = values.rows, None  # a page shows the sum of the other rows
    values.json = form

# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope prof run` and `attach` about the ring for `--mode log`."""

from __future__ import annotations

from soscope.control import settings as session
from soscope.errors import UsageError
from soscope.options.units import parse_size, size_text
from soscope.verbs.options import VALUE, Option, Values

_GROUP = "how"

BUFFER = Option(
    "--buffer",
    dest="buffer",
    kind=VALUE,
    metavar="SIZE",
    default=None,
    convert=parse_size,
    group=_GROUP,
    help="with --mode log: memory for calls that soscope has not taken yet "
    f"({size_text(session.DEFAULT_BUFFER)})",
)
WHEN_FULL = Option(
    "--when-full",
    dest="when_full",
    kind=VALUE,
    metavar="POLICY",
    choices=session.WHEN_FULL,
    default=None,
    group=_GROUP,
    help="with --mode log, when that is full: block (threads wait; run does), drop (attach does), "
    "overwrite, stop",
)


def check_ring(values: Values, *, logs: bool) -> None:
    """Refuse invalid sizes, and options about single calls if these are not recorded."""
    for name, value in (("--buffer", values.buffer), ("--when-full", values.when_full)):
        if value is not None and not logs:
            raise UsageError(f"{name} is about single calls", hint="add --mode log")
    least, most = session.LEAST_BUFFER, session.MOST_BUFFER
    if values.buffer is not None and not least <= values.buffer <= most:
        raise UsageError(
            f"--buffer: {size_text(values.buffer)} is not between {size_text(least)} and "
            f"{size_text(most)}"
        )

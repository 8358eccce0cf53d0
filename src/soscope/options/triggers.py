# SPDX-License-Identifier: Apache-2.0
"""The options that say when recording begins and ends: `trace` and `report` share most."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.table import LIST, VALUE, Option
from soscope.options.units import parse_duration

_GROUP = "from when to when"
_SIGNALS = ("SIGUSR1", "SIGUSR2")  # that end nobody's work in soscope


def parse_signal(text: str) -> int:
    """Return the number of a signal that soscope can be sent for this. Raises UsageError."""
    from soscope.proc.signals import signal

    name = text.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in _SIGNALS:
        raise UsageError(
            f"'{text}' is not a signal to switch with", hint=f"one of {', '.join(_SIGNALS)}"
        )
    return int(getattr(signal, name))


ON_OFF = [
    Option(
        "--on",
        dest="on",
        kind=LIST,
        metavar="EXPR",
        group=_GROUP,
        help="nothing before a process makes a call that EXPR chooses (repeatable)",
    ),
    Option(
        "--off",
        dest="off",
        kind=LIST,
        metavar="EXPR",
        group=_GROUP,
        help="nothing after a call that EXPR chooses, up to the next of --on (repeatable)",
    ),
]

TOGGLE = Option(
    "--toggle",
    dest="toggle",
    kind=VALUE,
    metavar="SIGNAL",
    convert=parse_signal,
    group=_GROUP,
    help="SIGUSR1 or SIGUSR2: sent to soscope, it switches recording on and off",
)

LAST = Option(
    "--last",
    dest="last",
    kind=VALUE,
    metavar="TIME",
    convert=parse_duration,
    group=_GROUP,
    help="calls that were not over TIME before the end: 10s",
)

# SPDX-License-Identifier: Apache-2.0
"""The options that switch recording on and off. `trace` and `report` share most of them."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.units import parse_duration
from soscope.verbs.options import LIST, VALUE, Option, Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.flight import FlightSettings

_GROUP = "from when to when"
_SIGNALS = ("SIGUSR1", "SIGUSR2")  # signals without another meaning for soscope


def parse_signal(text: str) -> int:
    """Return the number of a signal that soscope can get for this purpose. Raises UsageError."""
    from soscope.proc.status import signal

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
        help="recording begins with a call that EXPR chooses (repeatable)",
    ),
    Option(
        "--off",
        dest="off",
        kind=LIST,
        metavar="EXPR",
        group=_GROUP,
        help="recording ends with a call that EXPR chooses; --on begins it again (repeatable)",
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
    help="calls of the last TIME before the end: 10s",
)

FLIGHT = [
    Option(
        "--last",
        dest="last",
        kind=VALUE,
        metavar="TIME",
        convert=parse_duration,
        group=_GROUP,
        help="only the calls of the last TIME before the end, or before what is said next",
    ),
    Option(
        "--on-crash",
        dest="on_crash",
        group=_GROUP,
        help="with --last: when a signal has killed a process",
    ),
    Option(
        "--on-symbol",
        dest="on_symbol",
        kind=LIST,
        metavar="EXPR",
        group=_GROUP,
        help="with --last: when a process makes a call that EXPR chooses (repeatable)",
    ),
]

# Options that a ring of the newest calls does not support, by the name of the value.
_RIVALS = {
    "on": "--on",
    "off": "--off",
    "toggle": "--toggle",
    "graph": "--graph",
    "svg": "--svg",
    "summary": "-c",  # also needed for a graph
    "both": "-C",
    "count_only": "--count-only",
    "duration": "--duration",
    "limit": "--limit",
    "when_full": "--when-full",
}


def flight_from(values: Values) -> FlightSettings | None:
    """Return the settings of the flight recorder, None if it is off. Raises UsageError."""
    if values.last is None:
        if values.on_crash or values.on_symbol:
            option = "--on-crash" if values.on_crash else "--on-symbol"
            raise UsageError(f"{option} says when --last is written", hint="add --last 10s")
        return None
    for name, flag in _RIVALS.items():
        if getattr(values, name):
            raise UsageError(
                f"--last and {flag} are two ways to record",
                hint="trace --record FILE, then: soscope report --last TIME FILE",
            )
    if values.follow > 1:
        raise UsageError("--last writes all processes together", hint="-f follows children")
    from soscope.control.flight import FlightSettings

    return FlightSettings(values.last, on_crash=values.on_crash, on_symbol=values.on_symbol)

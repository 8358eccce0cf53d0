# SPDX-License-Identifier: Apache-2.0
"""The options that choose among calls, and those that say when recording begins and ends."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.verbs.options import LIST, VALUE, Option, Values, parse_count, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.flight import FlightSettings
    from soscope.instruments.trace.choice import Choice, Moment
    from soscope.select.filter import Selection


# The options that choose single calls, which `trace` and `report` share.

_GROUP = "which of them to show"
_SECOND = 1_000_000_000  # nanoseconds
_EPOCH = 1_000_000_000  # seconds: no trace takes so long, and every clock shows more


def parse_level(text: str) -> int:
    """Return how many levels of calls are wanted, at least one. Raises UsageError."""
    levels = parse_count(text)
    if not levels:
        raise UsageError("'0' levels show nothing", hint="1 shows only the outermost calls")
    return levels


def parse_moment(text: str) -> Moment:
    """Return a moment: `1.5s`, `12:34:56.789` or `1700000000.5`. Raises UsageError."""
    from soscope.instruments.trace import choice

    if ":" in text:
        return choice.Moment(choice.CLOCK, _of_day(text))
    seconds, _, part = text.partition(".")
    is_number = all(word.isascii() and word.isdigit() for word in (seconds, part or "0"))
    if is_number and len(seconds) <= 10 and len(part) <= 9:
        ns = int(seconds) * _SECOND + int(part.ljust(9, "0"))
        return choice.Moment(choice.EPOCH if int(seconds) >= _EPOCH else choice.AFTER, ns)
    try:
        return choice.Moment(choice.AFTER, parse_duration(text))
    except UsageError as error:
        raise UsageError(
            f"'{text}' is no moment",
            hint="2s after the beginning, 12:34:56.5, or seconds since 1970",
            slug="unit",
        ) from error


def _of_day(text: str) -> int:
    """Return the ns since midnight of `12:34`, `12:34:56` or `12:34:56.789`."""
    clock, _, part = text.partition(".")
    words = clock.split(":")
    if (
        len(words) not in (2, 3)
        or not all(word.isascii() and word.isdigit() and len(word) <= 2 for word in words)
        or (part and not (part.isascii() and part.isdigit()))
        or len(part) > 9
    ):
        raise UsageError(f"'{text}' is no time of the day", hint="for example 12:34:56.789")
    hours, minutes, seconds = map(int, [*words, "0"][:3])
    if hours > 23 or minutes > 59 or seconds > 60:
        raise UsageError(f"'{text}' is no time of the day", hint="for example 12:34:56.789")
    return ((hours * 60 + minutes) * 60 + seconds) * _SECOND + int(part.ljust(9, "0"))


FILTERS = [
    Option(
        "--slower",
        dest="slower",
        kind=VALUE,
        metavar="TIME",
        convert=parse_duration,
        group=_GROUP,
        help="calls that take TIME or more: 5ms, 1s",
    ),
    Option(
        "-z", "--successful-only", dest="successes", group=_GROUP, rivals="ends",
        help="calls that returned and did not fail",
    ),
    Option(
        "-Z", "--failed-only", dest="failures", group=_GROUP, rivals="ends",
        help="calls that failed",
    ),
    Option(
        "--where",
        dest="where",
        kind=LIST,
        metavar="CONDITION",
        group=_GROUP,
        help="calls of which it holds: 'ret < 0', 'size > 1MiB' (repeatable: all of them)",
    ),
    Option(
        "-P",
        "--path",
        dest="paths",
        kind=LIST,
        metavar="PATH",
        group=_GROUP,
        help="calls that name this path (repeatable: one of them)",
    ),
    Option(
        "--depth",
        dest="depth",
        kind=VALUE,
        metavar="N",
        convert=parse_level,
        group=_GROUP,
        help="N levels of calls inside calls; 1: the outermost",
    ),
    Option(
        "--tid",
        dest="tids",
        kind=LIST,
        metavar="TID",
        convert=parse_count,
        group=_GROUP,
        help="calls of this thread (repeatable)",
    ),
    Option(
        "--since",
        dest="since",
        kind=VALUE,
        metavar="WHEN",
        convert=parse_moment,
        group=_GROUP,
        help="calls from then on: 2s after the beginning, 12:34:56",
    ),
    Option(
        "--until",
        dest="until",
        kind=VALUE,
        metavar="WHEN",
        convert=parse_moment,
        group=_GROUP,
        help="calls up to then",
    ),
    Option("-b", "--no-signals", dest="no_signals", group=_GROUP, help="no signals"),
]  # fmt: skip

# Options that need single calls, and so cannot be applied to sums.
_ONE_BY_ONE = {
    "slower": "--slower",
    "successes": "-z",
    "failures": "-Z",
    "where": "--where",
    "paths": "-P",
    "depth": "--depth",
    "tids": "--tid",
    "since": "--since",
    "until": "--until",
}


def asked_of_calls(values: Values) -> list[str]:
    """Return the given options that need single calls, as they are spelled."""
    return [
        flag for dest, flag in _ONE_BY_ONE.items() if getattr(values, dest) not in (None, False, [])
    ]


def choice_from(
    values: Values,
    *,
    selection: Selection | None = None,
    pids: list[int] | None = None,
    on: Selection | None = None,
    off: Selection | None = None,
    last_ns: int | None = None,
) -> Choice | None:
    """Return the choice of the options, or None for everything.

    `selection`, `pids`, `on`, `off` and `last_ns` are further conditions: see `Choice`.
    """
    others = selection, pids or None, on, off, last_ns
    if not values.no_signals and not asked_of_calls(values) and not any(map(_is_said, others)):
        return None
    from soscope.instruments.trace import choice

    ends = choice.ANY
    if values.successes:
        ends = choice.SUCCESSES
    elif values.failures:
        ends = choice.FAILURES
    where = None
    if values.where:
        from soscope.select.where import Condition

        for text in values.where:
            Condition(text)  # parsed separately, so that an error shows what the user wrote
        where = Condition(" and ".join(f"({text})" for text in values.where))
    return choice.Choice(
        selection=selection,
        pids=pids,
        tids=values.tids,
        since=values.since,
        until=values.until,
        depth=values.depth,
        slower_ns=values.slower,
        ends=ends,
        where=where,
        paths=[name for path in values.paths for name in _spelled(path)],
        signals=not values.no_signals,
        on=on,
        off=off,
        last_ns=last_ns,
    )


def _is_said(what: object) -> bool:
    return what is not None


def _spelled(path: str) -> list[str]:
    """Return paths by which programs may denote a file: as given, absolute, without links."""
    from os.path import abspath, normpath, realpath

    return [path, normpath(path), abspath(path), realpath(path)]


# The options that switch recording on and off. `trace` and `report` share most of them.

_GROUP_TRIGGERS = "from when to when"
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
        group=_GROUP_TRIGGERS,
        help="recording begins with a call that EXPR chooses (repeatable)",
    ),
    Option(
        "--off",
        dest="off",
        kind=LIST,
        metavar="EXPR",
        group=_GROUP_TRIGGERS,
        help="recording ends with a call that EXPR chooses; --on begins it again (repeatable)",
    ),
]

TOGGLE = Option(
    "--toggle",
    dest="toggle",
    kind=VALUE,
    metavar="SIGNAL",
    convert=parse_signal,
    group=_GROUP_TRIGGERS,
    help="SIGUSR1 or SIGUSR2: sent to soscope, it switches recording on and off",
)

LAST = Option(
    "--last",
    dest="last",
    kind=VALUE,
    metavar="TIME",
    convert=parse_duration,
    group=_GROUP_TRIGGERS,
    help="calls of the last TIME before the end: 10s",
)

FLIGHT = [
    Option(
        "--last",
        dest="last",
        kind=VALUE,
        metavar="TIME",
        convert=parse_duration,
        group=_GROUP_TRIGGERS,
        help="only the calls of the last TIME before the end, or before what is said next",
    ),
    Option(
        "--on-crash",
        dest="on_crash",
        group=_GROUP_TRIGGERS,
        help="with --last: when a signal has killed a process",
    ),
    Option(
        "--on-symbol",
        dest="on_symbol",
        kind=LIST,
        metavar="EXPR",
        group=_GROUP_TRIGGERS,
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

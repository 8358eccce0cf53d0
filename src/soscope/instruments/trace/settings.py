# SPDX-License-Identifier: Apache-2.0
"""Settings of a trace, from command-line options or from soscope.trace() arguments."""

from __future__ import annotations

from soscope.control.settings import DEFAULT_BUFFER, SessionSettings
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.control.flight import FlightSettings
    from soscope.entry.remote.packets import RemoteAddress
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.model.call import Event
    from soscope.prototypes import Prototypes
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection


# Listeners: they get the events of a trace while it runs.
#
# The instrument does not print. Its user passes in a listener, and the reports are listeners. (A
# *sink* of the recording gets raw chunks; a listener gets calls.)


class Listener:
    """Takes the events of one trace, in order of time. This base class ignores them.

    The calls come in the order meet, begin, begun, any number of `events` and `caught_up`, end. A
    listener must not disturb the target, so it handles errors of its output itself.
    `takes_stretches` means that events may be Stretches. Without `wants_durations`, calls that do
    not wait may seem to take no time. `shown` counts the calls that it has let through, and is
    None if it lets all through. With `wants_callers` it gets, before a chosen call, all calls
    around it whose own end still decides.
    """

    takes_stretches = False
    wants_durations = True
    wants_callers = False
    shown: int | None = None

    def meet(self, programs: Programs) -> None:
        """Take the programs, which have the images. Called before `begin`."""

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Get ready for the calls that the filter `selection` chooses."""

    def begun(self) -> None:
        """Note that the command runs, or that all processes are hooked."""

    def events(self, batch: list[Event]) -> None:
        """Take a batch of events."""

    def caught_up(self, time_ns: int) -> None:
        """Note that all events up to a time have been passed on."""

    def end(self, outcome: TraceOutcome) -> None:
        """Finish. No event will follow."""


class Destination:
    """The place where a listener writes to, as seen by the trace. This base class is none."""

    __slots__ = ()
    spent_ns = 0  # time spent on writing and on waiting for the reader

    @property
    def file(self) -> tuple[int, int] | None:
        """Return device and inode of a regular file, None for other outputs."""
        return None

    def begin(self) -> None:
        """Discard the output of an earlier trace, as this one has begun."""

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Call `meanwhile` often while the reader is slow. If it returns False, stop writing."""
        del meanwhile


# Notes about what the stacks of a trace lack.

_NO_STACKS = "the recording has no stacks: soscope trace -k --record FILE ... keeps them"


def stack_remarks(totals: object) -> list[str]:
    """Return a line for each loss of stacks in `totals`, the totals of a trace."""
    said = totals.get("stacks") if isinstance(totals, dict) else None
    if not isinstance(said, dict):
        return []
    lost, notes = said.get("lost"), said.get("notes")
    lines = [str(note) for note in notes] if isinstance(notes, list) else []
    if isinstance(lost, int) and lost:
        lines.append(f"{lost:,} calls have no stack: there was no room for more")
    return lines


def recorded_remarks(options: dict[str, object], depth: int) -> list[str]:
    """Return a note if a recording made with `options` has fewer frames than `depth`."""
    kept = options.get("stacks")
    if not depth:
        return []
    if not isinstance(kept, int) or not kept:
        return [_NO_STACKS]
    return [f"stacks were recorded with --stack-depth {kept}"] if kept < depth else []


# What is recorded of the calls.
MODE_TRACE = "trace"  # every call, as it happens
MODE_SUMMARY = "summary"  # -c: calls, errors and times by function
MODE_COUNT = "count"  # --count-only: calls by function

INSTRUMENTS = {  # numbers of the agent's instruments
    MODE_TRACE: layout.INSTRUMENT_TRACE,
    MODE_SUMMARY: layout.INSTRUMENT_STATS,
    MODE_COUNT: layout.INSTRUMENT_COUNT,
}

DEFAULT_STRING_LIMIT = 32
MOST_STRING_LIMIT = 4096


class TraceSettings(SessionSettings):
    """What to trace, and how, in addition to the settings of every session.

    `select`, `from_` and `to` are the arguments of -e, --from and --to, as the user wrote them.
    `mode` is one of the MODE_ constants of this module. `entry_only` means that exits are not
    recorded, and so no results and durations. `string_limit` is how many bytes of a string are
    kept. `wants_events` means that events are read as they come. `stacks` is how many frames of
    its stack each call has, 0: none. `on` and `off` are filter expressions, too. Recording begins
    with the calls of `on` and ends with those of `off`. If there is an `on`, it is off at first.
    """

    __slots__ = (
        "debug",
        "entry_only",
        "from_",
        "mode",
        "off",
        "on",
        "prototypes",
        "select",
        "stacks",
        "string_limit",
        "to",
        "wants_events",
    )

    def __init__(
        self,
        command: list[str],
        *,
        select: list[str] | None = None,
        from_: list[str] | None = None,
        to: list[str] | None = None,
        mode: str = MODE_TRACE,
        follow: bool = False,
        entry_only: bool = False,
        string_limit: int = DEFAULT_STRING_LIMIT,
        duration_ns: int | None = None,
        buffer: int = DEFAULT_BUFFER,
        limit: int | None = None,
        when_full: str = "block",
        record: str | None = None,
        pids: list[int] | None = None,
        cwd: str | None = None,
        environ: dict[str, str] | None = None,
        prototypes: list[str] | None = None,
        user: str | None = None,
        wants_events: bool = True,
        stacks: int = 0,
        debug: bool = False,
        on: list[str] | None = None,
        off: list[str] | None = None,
        toggle: int | None = None,
        flight: FlightSettings | None = None,
        remote: RemoteAddress | None = None,
        sysroot: str | None = None,
        qemu: str | None = None,
        engine: str | None = None,
        check: bool = False,
        inside: list[str] | None = None,
    ) -> None:
        super().__init__(
            command,
            pids=pids,
            follow=follow,
            duration_ns=duration_ns,
            buffer=buffer,
            when_full=when_full,
            record=record,
            limit=limit,
            cwd=cwd,
            environ=environ,
            user=user,
            gate=not (on or toggle) if on or off or toggle else None,
            toggle=toggle,
            flight=flight,
            remote=remote,
            sysroot=sysroot,
            qemu=qemu,
            engine=engine,
            check=check,
            inside=inside,
        )
        self.on = on or []
        self.off = off or []
        self.select = select or []
        self.from_ = from_ or []
        self.to = to or []
        self.mode = mode
        self.prototypes = prototypes or []
        self.entry_only = entry_only
        self.string_limit = string_limit
        self.wants_events = wants_events
        self.stacks = stacks
        self.debug = debug

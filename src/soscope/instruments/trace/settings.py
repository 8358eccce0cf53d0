# SPDX-License-Identifier: Apache-2.0
"""Settings of a trace, from command-line options or from soscope.trace() arguments."""

from __future__ import annotations

from soscope.control.settings import DEFAULT_BUFFER, SessionSettings
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.flight import FlightSettings
    from soscope.entry.remote.packets import RemoteAddress


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
    kept. `wants_events` means that events are read as they come. `stacks` is how many frames of its
    stack each call has, 0: none. `on` and `off` are filter expressions, too. Recording begins with
    the calls of `on` and ends with the calls of `off`. If there is an `on`, it is off at first.
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

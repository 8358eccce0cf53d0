# SPDX-License-Identifier: Apache-2.0
"""The work of the process of one run: a session like `soscope inject`, and a report.

The process is a fork of the sweep, so that modules are not imported again for each site. It leads
a session (setsid(2)) of its own. So it has no terminal, and the processes that it leaves behind
can be found and killed. The report is a JSON object, which goes through a pipe.
"""

from __future__ import annotations

import gc
import json
import os
import time

from soscope.control.flight import CrashSink
from soscope.control.session import Session
from soscope.control.settings import LEAST_BUFFER, Instrument, SessionSettings
from soscope.errors import LaunchError, SoscopeError
from soscope.instruments.inject.instrument import InjectInstrument
from soscope.instruments.inject.sweep.observed import SitesInstrument
from soscope.instruments.inject.sweep.processes import adopt_orphans, kill
from soscope.instruments.inject.sweep.site import Site
from soscope.proc import status
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from soscope.recording.sink import Sink
    from soscope.select.filter import Selection

Report = dict[str, object]

_OURS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_ROUNDS, _PAUSE = 1000, 0.001  # seconds in which killed processes end


class Order:
    """The order for a run: execute `command`, and let `site` fail or collect call sites.

    If `site` is None, the call sites of the functions in `selection` are collected.
    """

    __slots__ = ("command", "follow", "selection", "site")

    def __init__(
        self,
        command: list[str],
        *,
        follow: bool,
        site: Site | None = None,
        selection: Selection | None = None,
    ) -> None:
        self.command = command
        self.follow = follow
        self.site = site
        self.selection = selection


class _SiteInjection(InjectInstrument):
    """An injection that also records where the command dies."""

    wants_threads = True  # any thread may be the one that dies

    def __init__(self, site: Site, *, follow: bool) -> None:
        super().__init__([site.parsed()], 0, follow=follow, string_limit=0)
        self.crash = CrashSink()

    def sinks(self) -> list[Sink]:
        """Return the sink that records fatal signals."""
        return [self.crash]


def run_order(order: Order, output: int, report: int) -> NoReturn:
    """Run as the process of a run: write the report to the descriptor `report`, then exit.

    The command's standard output is `output`.
    """
    said: Report
    try:
        gc.freeze()
        _settle(output)
        said = _observe(order)
    except SoscopeError as error:
        said = {"error": error.message, "status": error.exit_status, "hint": error.hint}
        said["is_launch"] = isinstance(error, LaunchError)
    except BaseException as error:  # noqa: BLE001  nobody else hears of it
        said = {"error": f"this is a bug in soscope: {type(error).__name__}: {error}"}
    try:
        _end_rest()
        data = memoryview(json.dumps(said).encode())
        while data:
            data = data[os.write(report, data) :]
    finally:
        os._exit(0)


def _settle(output: int) -> None:
    """Start a session, redirect the standard streams, and become the parent of orphans."""
    os.setsid()
    adopt_orphans(wanted=True)
    for number in _OURS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd, source in enumerate((nothing, output, nothing)):
        os.dup2(source, fd)
    if nothing > 2:
        os.close(nothing)


def _end_rest() -> None:
    """Kill all processes that the command has left behind, in whatever session they are."""
    for _ in range(_ROUNDS):
        rest = status.children(os.getpid())
        for pid in rest:
            kill(pid)
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # the process has been waited for already
        if not rest:
            return
        time.sleep(_PAUSE)


def _observe(order: Order) -> Report:
    settings = SessionSettings(order.command, follow=order.follow)
    said: Report = {}
    instrument: Instrument
    if order.site is not None:
        settings.buffer = LEAST_BUFFER  # enough for one call in each process
        instrument = inject = _SiteInjection(order.site, follow=order.follow)
    else:
        assert order.selection is not None
        instrument = sites = SitesInstrument(order.selection)
    outcome = Session(settings, [instrument]).run()
    said["ended"] = [outcome.status, outcome.signal]
    said["programs"] = len(outcome.programs)
    said["untraced"] = outcome.untraced
    if order.site is not None:
        said["injected"] = inject.injected[0]
        said["stack"] = inject.crash.stack(outcome.signal)
    else:
        said["sites"] = sorted(sites.sites)
        said["jumped"] = sorted(sites.jumped)
    return said

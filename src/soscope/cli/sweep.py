# SPDX-License-Identifier: Apache-2.0
"""`soscope inject --sweep`: report how a command copes with failures."""

from __future__ import annotations

import signal

from soscope.cli.main import Invocation, note
from soscope.options.sweep import SweepOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class _Ends:
    """Turns signals that ask soscope to end into KeyboardInterrupt, only the first one.

    `number` is that signal, 0 if there was none.
    """

    def __init__(self) -> None:
        self.number = 0
        for number in _ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._take)

    def _take(self, number: int, _: FrameType | None) -> None:
        if not self.number:
            self.number = number
            raise KeyboardInterrupt


def sweep(options: SweepOptions, invocation: Invocation) -> int:
    """Run the sweep. Return 0, or 1 if there was a crash, a hang or wrong output."""
    from soscope.cli.exits import die
    from soscope.cli.output import finish
    from soscope.instruments.inject.sweep.sweep import Sweep, SweepSettings
    from soscope.report import inject
    from soscope.report.output import STDOUT, Output

    invocation.debug |= options.debug
    invocation.wraps = True
    work = Sweep(
        SweepSettings(
            options.command,
            options.functions,
            callers=options.callers,
            follow=options.follow,
            test=options.test,
            jobs=options.jobs,
            timeout=options.timeout,
        )
    )
    output = Output.open(options.output, STDOUT)
    ends = _Ends()
    result = work.run()
    if result.sites or not result.is_cut:
        output.write(
            inject.document(result, options.json)
            if options.json
            else inject.text(result, every=options.verbose)
        )
    is_told = finish(output)
    if not options.quiet:
        for line in inject.notes(result):
            note(line)
    if result.is_cut:
        return die(ends.number or signal.SIGINT)
    if result.failed:
        return 125
    return 1 if result.has_faults or not is_told else 0

# SPDX-License-Identifier: Apache-2.0
"""Observe a command with two instruments on the same slots, as `python -m` of this module.

Arguments: the file for both accounts, the selection, "yes" to follow children, the command. Trace
records each call and -c times it, so that a call returns through two trampolines.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from soscope.control.session import Session
from soscope.instruments.trace.instrument import TraceInstrument
from soscope.instruments.trace.listener import Destination, Listener
from soscope.instruments.trace.settings import MODE_SUMMARY, TraceSettings
from soscope.instruments.trace.summary import by_function, rows_of
from soscope.model.call import Entry, Event


class Names(Listener):
    """Counts calls by name."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def events(self, batch: list[Event]) -> None:
        self.seen.update(event.slot.symbol for event in batch if isinstance(event, Entry))


def main() -> None:
    """Run the command, write both accounts, and end as it has ended."""
    account, select, follow, *command = sys.argv[1:]
    recorded = TraceSettings(command, select=[select], from_=["all"], follow=follow == "yes")
    timed = TraceSettings(command, select=[select], from_=["all"], mode=MODE_SUMMARY)
    names = Names()
    both = [
        TraceInstrument(timed, Listener(), Destination()),
        TraceInstrument(recorded, names, Destination()),
    ]
    outcome = Session(recorded, both).run()
    assert both[0].outcome is not None
    rows = by_function(rows_of(both[0].outcome.programs))
    facts = {
        "recorded": names.seen,
        "timed": {row.symbol: row.calls for row in rows},
        "shortfalls": outcome.shortfalls,
    }
    Path(account).write_text(json.dumps(facts))
    if outcome.signal is not None:
        signal.signal(outcome.signal, signal.SIG_DFL)
        os.kill(os.getpid(), outcome.signal)
    os._exit(outcome.status or 0)


if __name__ == "__main__":
    main()

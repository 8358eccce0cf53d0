# SPDX-License-Identifier: Apache-2.0
"""Run a command as `soscope trace` does, with any agent, and write down what happened.

    python -m tests.support.processes.launcher REPORT AGENT [follow|stay|plain] -- COMMAND…

REPORT gets one JSON object: programs, events, exit, and how the launch ended. Ends as the
command did, or with the status of the error.
"""

from __future__ import annotations

import json
import os
import sys

from soscope.control.launch import launch
from soscope.control.program import Program, SessionEvents
from soscope.errors import SoscopeError
from soscope.verbs.main import end, leave
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan


class Notes(SessionEvents):
    """Keeps every event as a list."""

    def __init__(self) -> None:
        self.events: list[list[object]] = []

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        """Keep it."""
        self.events.append([event, pid, parent, program.index, program.reason])

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        """Keep it."""
        self.events.append(["signal", pid, tid, signal])

    def on_exit(self, pid: int, status: int | None, signal: int | None, time_ns: int) -> None:
        """Keep it."""
        self.events.append(["exit", pid, status, signal])


def make_block(path: str, descriptors: tuple[int, ...] | None, _: int) -> ControlBlock:
    """Make a block that asks for nothing: an empty filter."""
    plan = Plan(
        instruments=[
            InstrumentPlan(
                layout.INSTRUMENT_COUNT,
                rules=b"",
                functions=bytes(layout.FUNCTION_TABLE.size + 16 + layout.FUNCTION.size),
            )
        ],
        patterns=(0).to_bytes(4, "little"),
        main_path=path,
        count_arrays=1,
    )
    return ControlBlock.create(plan, descriptors)


def describe(program: Program) -> dict[str, object]:
    """Return what is known of a program, and the mini agent's answer."""
    answer: list[int] = []
    if program.block is not None:
        answer = list(program.block._u64[512 : 512 + 32])
    return {
        "pid": program.pid,
        "path": program.path,
        "reason": program.reason,
        "note": program.note,
        "answer": answer,
        "state": program.block.state if program.block is not None else None,
        "marks": [[name, at - program.marks[0][1]] for name, at in program.marks],
    }


def main(argv: list[str]) -> None:
    """Launch and wait."""
    report, agent, mode, dashes, *command = argv
    assert dashes == "--"
    notes = Notes()
    result: dict[str, object] = {"pid": os.getpid()}
    try:
        target = launch(
            command,
            make_block,
            follow=mode == "follow",
            stay=mode == "stay",
            events=notes,
            agent=agent or None,
        )
        with open(report + ".started", "w", encoding="utf-8") as file:
            file.write(str(target.pid))
        ticks = 0

        def tick() -> float:
            nonlocal ticks
            ticks += 1
            return 0.02

        ended = target.run(tick)
    except SoscopeError as error:
        result["error"] = [type(error).__name__, error.slug, str(error)]
        print(error, file=sys.stderr)
        how = None
        status = error.exit_status
    else:
        result["programs"] = [describe(program) for program in target.programs]
        result["exit"] = [ended.status, ended.signal]
        how = ended
        result["ticks"] = ticks
    result["events"] = notes.events
    with open(report, "w", encoding="utf-8") as file:
        json.dump(result, file)
    end(status if how is None else leave(how.status, how.signal))


if __name__ == "__main__":
    main(sys.argv[1:])

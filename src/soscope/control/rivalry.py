# SPDX-License-Identifier: Apache-2.0
"""Do not trace programs that need ptrace themselves: a process can have only one tracer."""

from __future__ import annotations

from soscope.control.program import Program
from soscope.entry.agent import put_in as rival
from soscope.entry.agent.put_in import PutIn
from soscope.wire import layout

LEAKS_FOLLOWED = (
    "neither its signals nor its children are seen, because its leak check needs ptrace itself: "
    "ASAN_OPTIONS=detect_leaks=0 (LSAN_OPTIONS for -fsanitize=leak) has it followed"
)
LEAKS = "its signals are not shown, because its leak check needs ptrace itself"
TRACES_FOLLOWED = "what it starts it cannot trace, because -f does, and nobody else can trace it"
TRACES = "its signals are not shown, because it uses ptrace itself"


def leaves(program: Program, put_in: PutIn, *, follow: bool) -> bool:
    """Return whether a program must not be traced, and note the consequences in the program.

    A program with a leak check is never traced, because a failing leak check changes its exit
    status. Many programs import ptrace and hardly ever call it. They are traced if the user asked
    to follow children.
    """
    try:
        need = put_in.rival()
    except OSError:
        return False  # the process was killed
    if need is None:
        return False
    if need == rival.CHECKS_LEAKS:
        _note(program, LEAKS_FOLLOWED if follow else LEAKS)
        if program.block is not None:
            program.block.flags &= ~layout.FLAG_FOLLOW  # children of the program record nothing
        return True
    _note(program, TRACES_FOLLOWED if follow else TRACES)
    return not follow


def _note(program: Program, text: str) -> None:
    program.note = f"{program.note}; {text}" if program.note else text

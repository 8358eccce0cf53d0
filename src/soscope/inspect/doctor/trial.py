# SPDX-License-Identifier: Apache-2.0
"""The final test: start a small program of this system with the agent in it."""

from __future__ import annotations

import os
import shutil
import sys
import time

from soscope.control.command import Command
from soscope.control.launch import launch
from soscope.errors import SoscopeError
from soscope.inspect.doctor.finding import LIMITED, MISSING, OK, Finding
from soscope.prototypes import load
from soscope.select.automaton import Automaton, pack_patterns
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan

_LIMIT = 20.0  # seconds; normally it takes twenty milliseconds
_NAME = "trial run"


def findings() -> list[Finding]:
    """Run the program, and judge the result."""
    command = _command()
    if command is None:
        return [Finding(_NAME, LIMITED, "no dynamic program found to try it with")]
    began = time.perf_counter()
    try:
        ended, hooked, calls, why, note = _run(command)
    except (SoscopeError, OSError) as error:
        return [Finding(_NAME, MISSING, str(error))]
    took = (time.perf_counter() - began) * 1000
    program = os.path.basename(command[0])
    if why is not None:
        return [Finding(_NAME, MISSING, f"{program} ran without the agent: {why}")]
    if ended != 0:
        return [Finding(_NAME, MISSING, f"{program} ended with {ended} instead of 0")]
    text = f"{program} ran with the agent: {hooked} slots hooked, {calls} calls, {took:.0f} ms"
    if not calls:
        return [Finding(_NAME, MISSING, f"{text}; no call was seen")]
    if note is not None:
        return [Finding(_NAME, LIMITED, f"{text}; {note}")]
    return [Finding(_NAME, OK, text)]


def _command() -> list[str] | None:
    """Return a command that prints nothing, exits with 0, and can have an agent; None if none."""
    for words in ([shutil.which("true") or ""], [sys.executable, "-I", "-S", "-c", ""]):
        try:
            if words[0] and Command(words).reason is None:
                return words
        except SoscopeError:
            continue  # cannot be run; try the next
    return None


def _make_block(path: str, descriptors: tuple[int, ...] | None, _: int) -> ControlBlock:
    """Make a control block that counts all calls of the program itself."""
    patterns: list[Automaton] = []
    functions = load().function_table(patterns, entry_only=True, want_arguments=False)
    rule = layout.RULE.struct.pack(
        layout.RULE_INCLUDE,
        layout.RULE_FIRST,
        layout.PATTERN_ANY,
        layout.PATTERN_MAIN,
        *[0] * (len(layout.RULE.fields) - 4),
    )
    plan = Plan(
        instruments=[InstrumentPlan(layout.INSTRUMENT_COUNT, rules=rule, functions=functions)],
        patterns=pack_patterns(patterns),
        main_path=path,
        count_arrays=4,
    )
    return ControlBlock.create(plan, descriptors)


def _run(command: list[str]) -> tuple[int | str, int, int, str | None, str | None]:
    """Return (status or signal, slots hooked, calls, why there is no agent, a note)."""
    target = launch(command, _make_block)
    until = time.monotonic() + _LIMIT

    def tick() -> float:
        if time.monotonic() > until:
            os.kill(target.pid, 9)
        return 0.002

    try:
        ended = target.run(tick)
    finally:
        target.leave()
    program = target.programs[0]
    how: int | str = ended.status if ended.status is not None else f"signal {ended.signal}"
    block = program.block
    if block is None:
        return how, 0, 0, program.reason or "no reason is known", program.note
    if block.state != layout.STATE_RUNNING:
        reason = program.reason or (os.strerror(-block.error) if block.error else "not started")
        block.close()
        return how, 0, 0, reason, program.note
    hooked = sum(image.slots_hooked for image in block.images(0))
    calls = sum(block.counts().values())
    block.close()
    return how, hooked, calls, None, program.note

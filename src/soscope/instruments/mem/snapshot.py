# SPDX-License-Identifier: Apache-2.0
"""Reads the objects of a running process at one moment."""

from __future__ import annotations

from soscope.control.blocks import Blocks
from soscope.control.cost import LOOK, Price, look_lines
from soscope.control.interpreter import VisitedInterpreter, visit
from soscope.control.settings import SessionSettings
from soscope.instruments.mem.model import COMPLETE, MemProcess, MemReport, RssParts
from soscope.instruments.mem.objects import ObjectsInstrument, ObjectsPlace, refusal, survivors_of
from soscope.instruments.mem.report import add_survivors
from soscope.instruments.mem.rss import Divide
from soscope.instruments.mem.survivors import Survivors
from soscope.proc import status
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import Refused
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.control.shield import Plain
    from soscope.wire.block import ControlBlock


def attach(pid: int) -> tuple[bool, list[str]]:
    """Let process `pid` count objects from now on, without soscope.

    Return whether it did so before, and notes about the wait. Raises NoSuchProcess, NotPermitted,
    AgentError and AttachError; then the process is as it was.
    """

    def work(interpreter: VisitedInterpreter, place: ObjectsPlace) -> Plain:
        was_counting = place.state == layout.OBJECTS_COUNTING
        _begin(interpreter)
        interpreter.stays = True
        return (was_counting,)

    return _told(visit_objects(pid, work))


def detach(pid: int) -> tuple[bool, list[str]]:
    """Let process `pid` stop counting. Return whether it counted, and notes.

    Raises as `attach`.
    """

    def work(interpreter: VisitedInterpreter, place: ObjectsPlace) -> Plain:
        was_counting = place.state == layout.OBJECTS_COUNTING
        interpreter.stays = not was_counting  # an idle agent has nothing to undo
        return (was_counting,)

    return _told(visit_objects(pid, work))


def _told(visited: tuple[Plain, Price]) -> tuple[bool, list[str]]:
    (was_counting,), cost = visited
    return bool(was_counting), look_lines(cost)


def snapshot(
    pid: int, *, collect: bool = False, qualname: bool = False, divide: Divide | None = None
) -> MemReport:
    """Return the objects of process `pid`. Objects that are older than `attach` have no line.

    With `collect`, garbage is collected before. With `qualname`, types have qualified names.
    `divide` finds the parts of the resident memory when the process runs again. Raises as
    `attach`.
    """
    command = status.command_words(pid)

    def work(interpreter: VisitedInterpreter, place: ObjectsPlace) -> Plain:
        interpreter.stays = place.state == layout.OBJECTS_COUNTING
        place = _begin(interpreter)
        if collect:
            interpreter.order(layout.OBJECTS_GARBAGE)
        memory = ProcessMemory(pid)
        try:
            return interpreter.stopped(lambda: survivors_of(memory, place).plain())
        finally:
            memory.close()

    said, cost = visit_objects(pid, work)
    survivors = Survivors.of_plain(said)
    report = MemReport(command, pid)
    report.objects_mode, report.state, report.uses_qualname = "exact", COMPLETE, qualname
    add_survivors(report, {pid: survivors.to_json(pid, None)})
    report.cost = cost
    report.notes += [*survivors.notes, *look_lines(cost)]
    parts = None if divide is None else divide(pid, survivors.blocks)
    report.rss = None if parts is None else RssParts(*parts)
    process = MemProcess(pid, None, command)
    process.state = COMPLETE
    report.processes.append(process)
    return report


def _begin(interpreter: VisitedInterpreter) -> ObjectsPlace:
    interpreter.order(layout.OBJECTS_BEGIN)
    place = place_of(interpreter.block)
    if place.state != layout.OBJECTS_COUNTING:
        raise Refused(refusal(place))
    return place


def visit_objects(
    pid: int, work: Callable[[VisitedInterpreter, ObjectsPlace], Plain]
) -> tuple[Plain, Price]:
    """Return the result of `work` on an interpreter and its agent's data, and the cost.

    Raises as `attach`.
    """
    blocks = Blocks(SessionSettings([], pids=[pid]), [ObjectsInstrument(is_visit=True)])

    def whole(interpreter: VisitedInterpreter) -> Plain:
        said = work(interpreter, place_of(interpreter.block))
        return said, interpreter.stood_ns

    said, stood_ns = visit(pid, blocks.make, lambda block: place_of(block).done, whole)
    return said, Price(0, {LOOK: stood_ns})


def place_of(block: ControlBlock) -> ObjectsPlace:
    """Return the data of a visited process's agent. Raises Refused if there are none."""
    places = ObjectsPlace.all(block)
    if not places:
        raise Refused("its agent has no place for what it knows")
    return places[0]

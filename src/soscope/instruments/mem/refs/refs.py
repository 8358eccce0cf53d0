# SPDX-License-Identifier: Apache-2.0
"""Find what keeps alive the objects that a running process has made at one line.

The interpreter carries out one order: it reports which objects refer to which, a part at a time.
At the end it waits while soscope chooses the objects of the place and finds their paths. So
nothing changes between the report and the search.
"""

from __future__ import annotations

import time

import numpy as np

from soscope.binfmt.source import ByteSource
from soscope.control.interpreter import VisitedInterpreter
from soscope.control.outcome import look_lines
from soscope.errors import SoscopeError
from soscope.instruments.mem.live import place_of, visit_objects
from soscope.instruments.mem.objects import ObjectsPlace, beating
from soscope.instruments.mem.origins import Origins
from soscope.instruments.mem.refs.graph import RefGraph, SearchLimitError, Words
from soscope.instruments.mem.refs.model import HolderPath, RefsReport, Where, grouped
from soscope.instruments.mem.refs.paths import PythonPaths, RubyPaths
from soscope.instruments.mem.rubyobjects import RubyNames, RubySlots, ruby_types
from soscope.instruments.mem.sidetable import SideTable, Tally
from soscope.live.python.lines import OriginCode, line_of
from soscope.live.python.objects import ObjectReader
from soscope.live.python.offsets import layout_of
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import Refused
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.shield import Plain
    from soscope.wire.block import ControlBlock

_MAJOR = 3
_LINES = "soscope mem snapshot shows lines that have objects; those from before attach have none"
_MOST = 1 << 26  # references that are read at most: half a gigabyte
_PATIENCE = 10.0  # seconds that the interpreter waits at the end


def refs(pid: int, where: Where, *, samples: int) -> RefsReport:
    """Return the holders of live objects of process `pid` that were made at one place.

    `samples` of these objects are examined. Raises as `snapshot`, and SoscopeError if the process
    does not count its objects or has no objects of that place.
    """

    def work(interpreter: VisitedInterpreter, place: ObjectsPlace) -> Plain:
        interpreter.stays = True
        if place.state != layout.OBJECTS_COUNTING:
            raise SoscopeError(
                f"process {pid} does not count its objects: none of them has a line",
                hint=f"soscope mem attach -p {pid}: objects that are made from then on have a line",
            )
        memory = ProcessMemory(pid)
        try:
            look = _RefsLook(interpreter.block, memory, pid, where, samples)
            interpreter.order(layout.OBJECTS_REFS, look.answer)
            return look.result()
        finally:
            memory.close()

    said, cost = visit_objects(pid, work)
    report = RefsReport.of_plain(said)
    report.notes += look_lines(cost)
    return report


class _RefsLook:
    """soscope's work while the interpreter waits: it reads the parts, then finds the paths."""

    def __init__(
        self, block: ControlBlock, memory: ByteSource, pid: int, where: Where, samples: int
    ) -> None:
        self._block = block
        self._memory = memory
        self._pid = pid
        self._where = where
        self._samples = samples
        self._parts: list[Words] = []
        self._count = 0
        self._report: RefsReport | None = None
        self._why = "its interpreter does not tell which objects refer to which"

    def answer(self) -> bool:
        """If the agent has a part ready, read it and let the agent go on. Return whether it had."""
        place = place_of(self._block)
        if place.asked == place.answered:
            return False
        try:
            with beating(self._block):
                self._take(place)
        finally:
            place.answer()
        return True

    def result(self) -> Plain:
        """Return the report as a tuple that marshal can write. Raises Refused if there is none."""
        if self._report is None:
            raise Refused(self._why)
        return self._report.plain()

    def _take(self, place: ObjectsPlace) -> None:
        data = self._memory.read(place.refs, layout.REFS.size)
        if len(data) < layout.REFS.size:
            raise ValueError("its references cannot be read")
        words, count, lost, is_last, modules = layout.REFS.struct.unpack(data)
        if not words:
            self._why = "there is no memory for what it tells"
            return
        self._count += count
        if self._count <= _MOST:
            part = self._memory.read(words, 8 * count)
            if len(part) < 8 * count:
                raise ValueError("its references cannot be read")
            self._parts.append(np.frombuffer(part, np.uint64))
        if not is_last:
            return
        if self._count > _MOST or lost:
            self._why = f"its objects have too many references: {self._count:,}"
            return
        self._report = self._look(place, RefGraph(self._parts), modules)

    def _look(self, place: ObjectsPlace, graph: RefGraph, modules: int) -> RefsReport:
        end = time.monotonic() + _PATIENCE
        paths: PythonPaths | RubyPaths
        if place.runtime == layout.RUNTIME_RUBY:
            names = RubyNames(self._memory, ruby_types(self._memory, place))
            where, addrs = _ruby_objects(self._memory, place, names, self._where)
            paths = RubyPaths(self._memory, graph, names, end)
        else:
            where, addrs = _python_objects(self._memory, place, self._where)
            python = layout_of((_MAJOR, place.minor))
            paths = PythonPaths(self._memory, python, graph, modules, end)
        every = np.linspace(0, len(addrs) - 1, min(self._samples, len(addrs))).round()
        picked = addrs[np.unique(every.astype(np.intp))] if len(addrs) else addrs
        reached: list[HolderPath] = []
        unknown = 0
        for addr in picked.tolist():
            try:
                reached.append(paths.path(addr))
            except SearchLimitError:
                unknown += 1
        notes = [f"{unknown:,} of them have too many holders to follow"] if unknown else []
        return RefsReport(self._pid, where, len(addrs), len(picked), grouped(reached), notes)


def _python_objects(memory: ByteSource, place: ObjectsPlace, where: Where) -> tuple[Where, Words]:
    """Return the place with the whole path of its file, and the addresses of its objects."""
    version = _MAJOR, place.minor

    def line(code: OriginCode, instr: int) -> int | None:
        return line_of(code.lines, code.first_line, instr, version)

    table = SideTable(memory, place.side)
    file, numbers = _origins_at(where, Origins(memory, Tally(memory, place.tally), line), table)
    is_there = np.isin(table.origins, numbers)
    addrs = table.addrs[is_there]
    reader = ObjectReader(memory, layout_of(version))
    objects = reader.look(addrs, table.dying[is_there])
    is_chosen = objects.alive
    if where.type is not None:
        types = np.unique(objects.types[objects.alive])
        names = reader.type_names(types.tolist())
        is_type = [name is not None and where.type in name for name in names]
        is_chosen = is_chosen & np.isin(objects.types, types[np.array(is_type, np.bool_)])
    return _some(file, where, addrs[is_chosen])


def _ruby_objects(
    memory: ByteSource, place: ObjectsPlace, names: RubyNames, where: Where
) -> tuple[Where, Words]:
    """Return the place and the addresses of its objects, for Ruby."""
    table = SideTable(memory, place.side)
    origins = Origins(memory, Tally(memory, place.tally), lambda _, line: line)
    file, numbers = _origins_at(where, origins, table)
    slots = RubySlots(memory, table, place.minor)
    is_chosen = np.isin(slots.origins, numbers)
    if where.type is not None:
        kinds, classes = slots.kinds[is_chosen].tolist(), slots.classes[is_chosen].tolist()
        is_chosen[is_chosen] = [
            names.of_class(kind, addr, 1) == where.type
            for kind, addr in zip(kinds, classes, strict=True)
        ]
    return _some(file, where, slots.addrs[is_chosen])


def _some(file: str, where: Where, addrs: Words) -> tuple[Where, Words]:
    if not len(addrs):
        raise SoscopeError(f"no object that was made at {where} is alive", hint=_LINES)
    return Where(file, where.line, where.type), addrs


def _origins_at(where: Where, origins: Origins, table: SideTable) -> tuple[str, list[int]]:
    """Return the file of a place, and the numbers of its origins.

    Raises SoscopeError if there is no such file, or if several files match.
    """
    files: dict[str, None] = {}
    chosen = []
    for number in np.unique(table.origins).tolist():
        file, line = origins.place(number)
        if file is None or line != where.line:
            continue
        if file == where.file or file.endswith(f"/{where.file.removeprefix('./')}"):
            files[file] = None
            chosen.append(number)
    if where.file in files:
        others = [number for number in chosen if origins.place(number)[0] == where.file]
        return where.file, others
    if len(files) > 1:
        raise SoscopeError(
            f"{where.file} is the end of several paths: {', '.join(sorted(files))}",
            hint="name more of the path",
        )
    if not files:
        raise SoscopeError(f"no object that was made at {where} is alive", hint=_LINES)
    return next(iter(files)), chosen

# SPDX-License-Identifier: Apache-2.0
"""gmon.out for gprof, which every system has, with a file of symbols beside it.

gmon_out.h of binutils. gprof takes link-time addresses, reads names from `-S` in nm's format, and
adds up repeated records. So callers outside the image have names, counts may exceed 32 bits, and
times are exact. Functions without an address of their own get one here.
"""

from __future__ import annotations

import os
import struct
from shlex import quote

from soscope.export.profiles import CallGraph, GraphEdge, call_graph_of, label
from soscope.instruments.prof.model import NOBODY
from soscope.instruments.prof.views import file_name
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import ProfFunction, Profile

_HEADER = struct.pack("<4sI12x", b"gmon", 1)
_HISTOGRAM = struct.Struct("<BQQII15scH")  # record of one bin
_ARC = struct.Struct("<BQQI")
_TAG_HISTOGRAM, _TAG_ARC = 0, 1

_UNIT = 2  # bytes of code in gprof's smallest bin
_MOST_TICKS, _MOST_CALLS = 0xFFFF, 0xFFFF_FFFF  # limits of one record
_MOST_RECORDS = 4096  # records of a file's times: rounding loses less than 2 parts in 10**8
_OWN = 0x7F00_0000_0000  # addresses that are in no file
_OWN_STEP = 16
_LONGEST_NAME = 900  # gprof reads lines of up to 1023 bytes
_END_SYMBOL = "<end>"


class GmonFiles(Record):
    """The files of one image, or of all: contents of `gmon` and `sym`.

    `name` is the image's name, "" for all images. `binary` is the file to pass to gprof.
    """

    name: str
    binary: str
    gmon: bytes
    sym: bytes


def export_files(profile: Profile) -> tuple[list[GmonFiles], list[str]]:
    """Return the files of each image, of all functions if there are several images, and notes."""
    graph = call_graph_of(profile)
    images: dict[tuple[str, str], list[int]] = {}
    called = {edge.callee for edge in graph.edges.values()}
    active = {
        place
        for place, node in enumerate(graph.nodes)
        if place in called or node.self_ns or node.samples
    }
    for place in sorted(active):
        images.setdefault(_image(graph.nodes[place].function), [])
    for place, node in enumerate(graph.nodes):
        image = _image(node.function)
        if image in images and (place in active or node.function.addr):
            images[image].append(place)
    everything = [place for places in images.values() for place in places]
    nowhere = [place for image, places in images.items() if not image[0] for place in places]
    images = {image: places for image, places in images.items() if image[0]}
    names = _file_names(list(images))
    files = [
        _files(graph, places, name, key[1] or key[0])
        for (key, places), name in zip(images.items(), names, strict=True)
    ]
    if len(files) > 1 or nowhere:
        binary = next((path for _, path in images if path), "")
        files.append(_files(graph, everything, "", binary))
    return files, _notes(profile, graph, len(nowhere))


def gprof_line(files: GmonFiles, gmon: str, sym: str) -> str:
    """Return the command line for gprof, with the contents in the files `gmon` and `sym`.

    With `-S`, gprof reads nothing from the image's file. If that file is not on this system,
    gprof gets its own.
    """
    binary = files.binary if os.path.isfile(files.binary) else "/proc/self/exe"
    return f"gprof -b -S {quote(sym)} {quote(binary)} {quote(gmon)}"


def _notes(profile: Profile, graph: CallGraph, nowhere: int) -> list[str]:
    notes = []
    if len(profile.threads) > 1:
        notes.append("gmon: all threads are added up")
    if graph.is_timed:
        notes.append(
            "gmon: it has no inclusive times, and gprof estimates them from numbers of calls; "
            "callgrind, pprof and speedscope have the measured ones"
        )
    if graph.is_timed and graph.has_samples:
        notes.append("gmon: it has the times of calls, and no samples")
    if nowhere:
        whose = "1 function of no image" if nowhere == 1 else f"{nowhere:,} functions of no image"
        has = "has it" if nowhere == 1 else "has them"
        notes.append(f"gmon: {whose}: only the file of all images {has}")
    return notes + graph.notes()


def _file_names(images: list[tuple[str, str]]) -> list[str]:
    """Return a file name for each image; images with the same name are numbered."""
    names: list[str] = []
    for image, _ in images:
        name = base = image.replace("/", "_")
        number = 1
        while name in names:
            number += 1
            name = f"{base}.{number}"
        names.append(name)
    return names


def _files(graph: CallGraph, places: list[int], name: str, binary: str) -> GmonFiles:
    table = _Addresses(graph, places, is_joint=not name)
    inside = set(places)
    edges = [edge for edge in graph.edges.values() if edge.callee in inside and edge.calls]
    arcs = [arc for edge in edges for arc in _arcs(edge, table)]
    times = {
        table.unit(place): graph.nodes[place].self_ns
        if graph.is_timed
        else graph.nodes[place].sampled_ns
        for place in places
    }
    gmon = b"".join([_HEADER, *_histogram(times), *arcs])
    return GmonFiles(name, binary, gmon, table.symbols())


class _Addresses:
    """An address for each function: its own, if no other function begins in its two bytes."""

    def __init__(self, graph: CallGraph, places: list[int], *, is_joint: bool) -> None:
        self._graph = graph
        self._is_joint = is_joint
        self._image = _image(graph.nodes[places[0]].function)
        self._next = _OWN
        self._known: dict[int, int] = {}
        self._names: dict[int, str] = {}
        taken: set[int] = set()
        for place in places:
            addr = 0 if is_joint else graph.nodes[place].function.addr
            if not addr or addr // _UNIT in taken:
                addr = self._free()
            taken.add(addr // _UNIT)
            self._add(place, addr)

    def of(self, place: int) -> int:
        """Return the address of a function, or of NOBODY."""
        addr = self._known.get(place)
        return self._add(place, self._free()) if addr is None else addr

    def unit(self, place: int) -> int:
        """Return the number of a bin that lies in one function only.

        gprof assumes that a function begins at the start of a bin. A long function at an odd
        address gets its first whole bin.
        """
        addr = self.of(place)
        is_long = self._graph.nodes[place].function.size >= 2 * _UNIT
        return (addr + _UNIT - 1) // _UNIT if is_long else addr // _UNIT

    def symbols(self) -> bytes:
        """Return the names of all addresses in use, as nm writes them."""
        # gprof reads the symbol behind each symbol that has a time
        names = {**self._names, self._next: _END_SYMBOL}
        lines = [f"{addr:016x} T {name}\n" for addr, name in sorted(names.items())]
        return "".join(lines).encode("utf-8", "surrogateescape")

    def _add(self, place: int, addr: int) -> int:
        self._known[place] = addr
        self._names[addr] = self._name(place)
        return addr

    def _free(self) -> int:
        addr = self._next
        self._next += _OWN_STEP
        return addr

    def _name(self, place: int) -> str:
        if place == NOBODY:
            return "<outside>"
        function = self._graph.nodes[place].function
        image = function.image or file_name(function.file or "") or "?"
        name = label(function)
        if self._is_joint or _image(function) != self._image:
            name = f"<outside:{image}>" if name == "?" else f"{name}@{image}"
        return "_".join(name.split())[:_LONGEST_NAME]


def _image(function: ProfFunction) -> tuple[str, str]:
    return function.image, function.path


def _histogram(times: dict[int, int]) -> list[bytes]:
    """Return records of the times (ns) of functions, by the units of their bins."""
    tick = 1
    while sum(times.values()) // (tick * _MOST_TICKS) > _MOST_RECORDS:
        tick *= 10
    # ticks in a unit that suits gprof's two decimals
    unit, mark, ticks = next(
        (unit, mark, ns // tick)
        for unit, mark, ns in (
            (b"usec", b"u", 1_000),
            (b"msec", b"m", 1_000_000),
            (b"seconds", b"s", 1_000_000_000),
        )
        if tick <= ns
    )
    records: list[bytes] = []
    for unit_number, ns in times.items():
        low = unit_number * _UNIT
        left = (ns + tick // 2) // tick
        while left or not records:  # without a record, gprof prints no flat profile
            now = min(left, _MOST_TICKS)
            left -= now
            head = _TAG_HISTOGRAM, low, low + _UNIT, 1, ticks, unit, mark
            records.append(_HISTOGRAM.pack(*head, now))
    return records


def _arcs(edge: GraphEdge, table: _Addresses) -> list[bytes]:
    caller, callee = table.of(edge.caller), table.of(edge.callee)
    records = []
    left = edge.calls
    while left:
        now = min(left, _MOST_CALLS)
        left -= now
        records.append(_ARC.pack(_TAG_ARC, caller, callee, now))
    return records

# SPDX-License-Identifier: Apache-2.0
"""The map of a process, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from soscope.inspect.map.processmap import ProcessMap
from soscope.live.images.image import LoadedImage
from soscope.live.slots.bindings import HOOKED, INTERPOSED, SlotRow
from soscope.model.call import printable
from soscope.proc.maps import Mapping
from soscope.report.words import plural

_SYMBOL = 40  # columns of a symbol's name


def lines_of(process_map: ProcessMap, *, only_slots: bool) -> Iterator[str]:
    """Yield the lines. `only_slots` leaves out images without slots, and mappings."""
    images = [image for image in process_map.images if process_map.rows[image]]
    shown = images if only_slots else process_map.images
    counts = process_map.counts()
    said = ", ".join(f"{number:,} {state}" for state, number in counts.items() if number)
    total = sum(counts.values())
    of = "" if total == process_map.total else f" of {process_map.total:,}"
    count = plural(len(process_map.images), "image")
    yield (
        f"process {process_map.pid} ({printable(process_map.path)}): {count},"
        f" {plural(total, 'slot')}{of}{': ' if said else ''}{said}"
    )
    for image in shown:
        yield ""
        yield _head(image, process_map.mappings[image])
        if not only_slots:
            for mapping in process_map.mappings[image]:
                place = f"{mapping.start:012x}-{mapping.end:012x}"
                yield f"  {place} {mapping.flags} {mapping.offset:8x}"
        for row in process_map.rows[image]:
            yield _slot(row)
    for name, why in process_map.damaged:
        yield f"\n{printable(name)}: not all of its slots could be read: {printable(why)}"


def _head(image: LoadedImage, mappings: Sequence[Mapping]) -> str:
    """Return the address of an image in words. An image linked for a fixed address has bias 0."""
    start = min((mapping.start for mapping in mappings), default=image.load_bias)
    where = f"{image.name} at {start:#x}"
    if start != image.load_bias:
        where += f" (load bias {image.load_bias:#x})"
    if image.namespace:
        where += f", namespace {image.namespace}"
    if image.path and image.path != image.name:
        where += f": {image.path}"
    return printable(where)


def _slot(row: SlotRow) -> str:
    binding = row.binding
    name = binding.symbol if binding.version is None else f"{binding.symbol}@{binding.version}"
    line = f"  {binding.addr:012x} {binding.state:10} {name:{_SYMBOL}} {_leads(row)}"
    return printable(line.rstrip())


def _leads(row: SlotRow) -> str:
    binding = row.binding
    if binding.state == HOOKED:
        symbol = f" {row.to_symbol}" if row.to_symbol is not None else ""
        where = f"{row.to_image}{symbol} ({binding.target:#x})"
        if binding.sites:
            where += f" through {plural(len(binding.sites), 're-aimed instruction')}"
        return f"{where}, not {row.expected_image}" if row.expected_image else where
    if binding.state == INTERPOSED:
        return f"{row.to_image}, not {row.expected_image}"
    if row.to_image is not None:
        return row.to_image
    return f"will be {row.expected_image}" if row.expected_image else "nothing"

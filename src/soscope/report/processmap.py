# SPDX-License-Identifier: Apache-2.0
"""The map of a process: text for people, soscope/process-map/1 for programs."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.inspect.processmap import ProcessMap, Row
from soscope.process.images.loadedimage import LoadedImage
from soscope.process.slots.bindings import HOOKED, INTERPOSED
from soscope.report.words import json_document, plural, printable

SCHEMA = "soscope/process-map/1"

_SYMBOL = 40  # columns of a symbol's name


def text(found: ProcessMap, *, only_slots: bool) -> Iterator[str]:
    """Give the lines. `only_slots` leaves out images without a slot to show, and mappings."""
    images = [one for one in found.images if found.rows[one]]
    shown = images if only_slots else found.images
    counts = found.counts()
    said = ", ".join(f"{number:,} {state}" for state, number in counts.items() if number)
    total = sum(counts.values())
    of = "" if total == found.total else f" of {found.total:,}"
    yield (
        f"process {found.pid} ({printable(found.path)}): {plural(len(found.images), 'image')},"
        f" {plural(total, 'slot')}{of}{': ' if said else ''}{said}"
    )
    for image in shown:
        yield ""
        yield _head(image)
        if not only_slots:
            for one in found.mappings[image]:
                yield f"  {one.start:012x}-{one.end:012x} {one.flags} {one.offset:8x}"
        for row in found.rows[image]:
            yield _slot(row)
    for name, why in found.damaged:
        yield f"\n{printable(name)}: not all of its slots could be read: {printable(why)}"


def _head(image: LoadedImage) -> str:
    where = f"{image.name} at {image.load_bias:#x}"
    if image.namespace:
        where += f", namespace {image.namespace}"
    if image.path and image.path != image.name:
        where += f": {image.path}"
    return printable(where)


def _slot(row: Row) -> str:
    one = row.binding
    name = one.symbol if one.version is None else f"{one.symbol}@{one.version}"
    line = f"  {one.addr:012x} {one.state:10} {name:{_SYMBOL}} {_leads(row)}"
    return printable(line.rstrip())


def _leads(row: Row) -> str:
    one = row.binding
    if one.state == HOOKED:
        symbol = f" {row.to_symbol}" if row.to_symbol is not None else ""
        where = f"{row.to_image}{symbol} ({one.target:#x})"
        if one.sites:
            where += f" through {plural(len(one.sites), 're-aimed instruction')}"
        return f"{where}, not {row.expected_image}" if row.expected_image else where
    if one.state == INTERPOSED:
        return f"{row.to_image}, not {row.expected_image}"
    if row.to_image is not None:
        return row.to_image
    return f"will be {row.expected_image}" if row.expected_image else "nothing"


def document(found: ProcessMap) -> str:
    """Return the JSON document."""
    value = {
        "schema": SCHEMA,
        "pid": found.pid,
        "images": [_image(found, image) for image in found.images],
    }
    return json_document(value)


def _image(found: ProcessMap, image: LoadedImage) -> dict[str, object]:
    return {
        "name": image.name,
        "path": image.path,
        "namespace": image.namespace,
        "load_bias": hex(image.load_bias),
        "mappings": [
            {
                "start": hex(one.start),
                "end": hex(one.end),
                "flags": one.flags,
                "offset": one.offset,
            }
            for one in found.mappings[image]
        ],
        "slots": [
            {
                "addr": hex(row.binding.addr),
                "symbol": row.binding.symbol,
                "version": row.binding.version,
                "value": hex(row.binding.value),
                "state": row.binding.state,
                "to_image": row.to_image,
                "to_symbol": row.to_symbol,
                "expected_image": row.expected_image,
            }
            for row in found.rows[image]
        ],
    }

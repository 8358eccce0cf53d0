# SPDX-License-Identifier: Apache-2.0
"""pprof's format: a gzip'd protobuf message Profile.

proto/profile.proto of google/pprof has the field numbers. A sample is a stack of one thread. Its
values are the number of calls and their self time, or the number of samples and the time that
they stand for.
"""

from __future__ import annotations

import gzip

from soscope.export.profiles import CALLS, SAMPLES, ExportSettings, forest_of
from soscope.export.protobuf import SymbolTables, integer, message, packed, string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.export.profiles import Forest, StackTree
    from soscope.instruments.prof.model import Profile

VIEWER = "go tool pprof FILE, or pprof -http : FILE"

# kind of tree -> (number, time), with their units
_TYPES = {CALLS: ("calls", "time"), SAMPLES: ("samples", "sampled_time")}


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write all stacks of all threads; return notes."""
    del settings
    forest = forest_of(profile)
    tables = SymbolTables(forest)
    types = [
        (name, "count" if number == 0 else "nanoseconds")
        for kind in (CALLS, SAMPLES)
        if forest.has(kind)
        for number, name in enumerate(_TYPES[kind])
        if number == 0 or forest.is_timed(kind)
    ]
    parts = [
        message(1, integer(1, tables.string(name)) + integer(2, tables.string(unit)))
        for name, unit in types
    ]
    names = [name for name, _ in types]
    for tree in forest.trees:
        parts += _samples(tree, tables, names)
    parts += _symbols(tables)
    parts += _about(forest, profile, tables, names)
    parts += [string(6, text) for text in tables.strings]  # last: the parts above add strings
    write(gzip.compress(b"".join(parts), mtime=0))
    return forest.notes()


def _samples(tree: StackTree, tables: SymbolTables, names: list[str]) -> list[bytes]:
    labels = b""
    if tree.thread is not None:
        thread = tree.thread
        if thread.name:
            key, name = tables.string("thread"), tables.string(thread.name)
            labels = message(3, integer(1, key) + integer(2, name))
        for text, number in (("tid", thread.tid), ("pid", thread.pid)):
            labels += message(3, integer(1, tables.string(text)) + integer(3, number))
    count, time = _TYPES[tree.kind]
    samples = []
    stacks = tables.stacks(tree)
    for stack, number, self_ns in zip(stacks, tree.counts, tree.self_ns, strict=True):
        if number or self_ns:
            known = {count: number, time: self_ns}
            values = packed(2, [known.get(name, 0) for name in names])
            samples.append(message(2, message(1, stack) + values + labels))
    return samples


def _symbols(tables: SymbolTables) -> list[bytes]:
    parts = []
    for number, mapping in enumerate(tables.mappings, 1):
        has = integer(7, 1) + integer(8, mapping.has_files) + integer(9, mapping.has_lines)
        place = integer(3, mapping.limit) if mapping.limit else b""
        parts.append(message(3, integer(1, number) + place + integer(5, mapping.file) + has))
    for number, location in enumerate(tables.locations, 1):
        line = integer(1, location.function) + integer(2, location.line)
        place = integer(2, location.mapping) + integer(3, location.addr)
        parts.append(message(4, integer(1, number) + place + message(4, line)))
    for (name, file), number in tables.functions.items():
        named = integer(2, name) + integer(3, name) + integer(4, file)
        parts.append(message(5, integer(1, number) + named))
    return parts


def _about(forest: Forest, profile: Profile, tables: SymbolTables, names: list[str]) -> list[bytes]:
    parts = [integer(13, tables.string("soscope prof: " + " ".join(profile.command)))]
    parts += [integer(13, tables.string(note)) for note in profile.notes]
    if profile.sample_ns is not None and forest.has(SAMPLES):
        period = integer(1, tables.string("sampled_time")) + integer(
            2, tables.string("nanoseconds")
        )
        parts += [message(11, period), integer(12, profile.sample_ns)]
    shown = [_TYPES[kind][1] for kind in (CALLS, SAMPLES) if forest.is_timed(kind)] or names
    if shown:
        parts.append(integer(14, tables.string(shown[0])))
    return parts

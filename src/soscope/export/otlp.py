# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's profiles: a protobuf message ProfilesData, v1development as of 1.10.

opentelemetry/proto/profiles/v1development/profiles.proto has the field numbers, which still
change. This is the format with a stack table, in which attributes are keys with values and units.
A Profile has one type of value, so there are up to four: calls, their self time, samples, and
their time.
"""

from __future__ import annotations

from hashlib import sha256

from soscope.export.profiles import CALLS, SAMPLES, ExportSettings, forest_of
from soscope.export.protobuf import SymbolTables, integer, message, packed, string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.export.profiles import Forest, StackTree
    from soscope.instruments.prof.model import Profile

VIEWER = ""  # for collectors; users have no viewer

# kind of tree -> (number, time)
_TYPES = {CALLS: ("calls", "time"), SAMPLES: ("samples", "sampled_time")}
_ID_BYTES = 16


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write all stacks of all threads, and attributes of the process; return notes."""
    del settings
    forest = forest_of(profile)
    dictionary = _Dictionary(forest)
    profiles = []
    for kind, (count, time) in _TYPES.items():
        trees = [tree for tree in forest.trees if tree.kind == kind]
        if forest.is_timed(kind):  # tools show the first one first
            samples = [dictionary.samples(tree, tree.self_ns) for tree in trees]
            period = profile.sample_ns if kind == SAMPLES else None
            profiles.append(_profile(dictionary, (time, "nanoseconds"), samples, period))
        if trees:
            samples = [dictionary.samples(tree, tree.counts) for tree in trees]
            profiles.append(_profile(dictionary, (count, "count"), samples))
    scope = message(1, string(1, "soscope"))
    scoped = scope + b"".join([message(2, content) for content in profiles])
    resource = message(1, _resource(forest, profile))
    write(message(1, resource + message(2, scoped)))
    write(message(2, dictionary.content()))
    return forest.notes()


class _Dictionary:
    """The tables that all profiles share; element 0 of each is empty."""

    def __init__(self, forest: Forest) -> None:
        self.tables = SymbolTables(forest)
        self._stacks: dict[bytes, int] = {b"": 0}
        self._attributes: dict[tuple[int, str | int], int] = {}

    def samples(self, tree: StackTree, values: list[int]) -> bytes:
        """Return samples for all nodes that have a value."""
        attributes = b""
        if tree.thread is not None:
            known: list[tuple[str, str | int]] = [
                ("thread.id", tree.thread.tid),
                ("process.pid", tree.thread.pid),
            ]
            if tree.thread.name:
                known.append(("thread.name", tree.thread.name))
            attributes = packed(2, [self._attribute(key, value) for key, value in known])
        parts = []
        for stack, value in zip(self.tables.stacks(tree), values, strict=True):
            if value:
                number = self._stacks.setdefault(stack, len(self._stacks))
                parts.append(message(2, integer(1, number) + attributes + packed(4, [value])))
        return b"".join(parts)

    def _attribute(self, key: str, value: str | int) -> int:
        known = self.tables.string(key), value
        return self._attributes.setdefault(known, len(self._attributes) + 1)

    def content(self) -> bytes:
        """Return the ProfilesDictionary; call it when all strings have been added."""
        tables = self.tables
        parts = [message(number, b"") for number in (1, 2, 3, 4, 6)]
        for mapping in tables.mappings:
            place = integer(2, mapping.limit) if mapping.limit else b""
            parts.append(message(1, place + integer(4, mapping.file)))
        for location in tables.locations:
            line = integer(1, location.function) + integer(2, location.line)
            place = integer(1, location.mapping) + integer(2, location.addr)
            parts.append(message(2, place + message(3, line)))
        parts += [
            message(3, integer(1, name) + integer(2, name) + integer(3, file))
            for name, file in tables.functions
        ]
        parts += [string(5, text) for text in tables.strings]
        parts += [
            message(6, integer(1, key) + message(2, _any(value))) for key, value in self._attributes
        ]
        parts += [message(7, message(1, stack) if stack else b"") for stack in self._stacks]
        return b"".join(parts)


def _profile(
    dictionary: _Dictionary,
    value_type: tuple[str, str],
    samples: list[bytes],
    period: int | None = None,
) -> bytes:
    name, unit = map(dictionary.tables.string, value_type)
    content = message(1, integer(1, name) + integer(2, unit)) + b"".join(samples)
    if period is not None:
        content += message(5, integer(1, name) + integer(2, unit)) + integer(6, period)
    names = "\0".join(dictionary.tables.strings).encode("utf-8", "replace")
    return content + message(7, sha256(names + content).digest()[:_ID_BYTES])


def _resource(forest: Forest, profile: Profile) -> bytes:
    known: list[tuple[str, str | int]] = [
        ("service.name", forest.program or "unknown_service"),
        ("process.command_line", " ".join(profile.command)),
    ]
    if forest.pid:
        known.append(("process.pid", forest.pid))
    return b"".join([message(1, string(1, key) + message(2, _any(value))) for key, value in known])


def _any(value: str | int) -> bytes:
    """Return a value as an AnyValue message."""
    return string(1, value) if isinstance(value, str) else integer(3, value)

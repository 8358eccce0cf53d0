# SPDX-License-Identifier: Apache-2.0
"""The report of `soscope mem refs`: paths from roots to objects, grouped by shape."""

from __future__ import annotations

from typing import Any

from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MODULE, CLASS, FRAME, THREAD = "module", "class", "frame", "thread"
INTERPRETER, NATIVE, GARBAGE = "interpreter", "native", "garbage"


class Where(Record, frozen=True, eq=True):
    """A place in code: the end of a file's path, a line, and a type (None for any type)."""

    file: str
    line: int
    type: str | None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.type}" if self.type else "")


class HolderRoot(Record, frozen=True, eq=True):
    """A root, which holds objects for good, of one of the kinds above.

    `file` and `line` are set for a frame.
    """

    kind: str
    name: str | None = None
    file: str | None = None
    line: int | None = None


class HolderStep(Record, frozen=True, eq=True):
    """An object of type `type` on a path. The step before holds it by `by`, None if not known.

    `shape` is `by` without the parts that differ between objects of one container.
    """

    type: str
    by: str | None
    shape: str | None


class HolderPath(Record, frozen=True, eq=True):
    """The path from a root to an object, the last step. `count` objects have such a path."""

    root: HolderRoot
    steps: tuple[HolderStep, ...]
    count: int = 1


class RefsReport(Record, eq=True):
    """The retention `paths` of objects that were made at one place, most frequent first.

    There are `objects` such objects, and `samples` of them were examined.
    """

    pid: int
    where: Where
    objects: int
    samples: int
    paths: list[HolderPath]
    notes: list[str]

    def plain(self) -> tuple[Any, ...]:
        """Return all fields as a tuple that marshal can write."""
        paths = [
            (path.root.values(), [step.values() for step in path.steps], path.count)
            for path in self.paths
        ]
        return self.pid, self.where.values(), self.objects, self.samples, paths, self.notes

    @classmethod
    def of_plain(cls, said: tuple[Any, ...]) -> RefsReport:
        """Return the object that `plain` has turned into a tuple."""
        pid, where, objects, samples, paths, notes = said
        made = [
            HolderPath(HolderRoot(*root), tuple(HolderStep(*step) for step in steps), count)
            for root, steps, count in paths
        ]
        return cls(pid, Where(*where), objects, samples, made, notes)


def grouped(paths: Iterable[HolderPath]) -> list[HolderPath]:
    """Join paths of one shape, most frequent first. Parts that differ within a shape are left out.

    >>> from soscope.instruments.mem.refs.model import HolderPath, HolderRoot, HolderStep, grouped
    >>> first, second = (HolderStep("str", f"[{number}]", "item") for number in (0, 1))
    >>> root = HolderRoot("module", "app")
    >>> grouped([HolderPath(root, (first,)), HolderPath(root, (second,))])[0].steps[0].by
    'item'
    """
    groups: dict[tuple[Any, ...], list[HolderPath]] = {}
    for path in paths:
        key = (path.root, tuple((step.type, step.shape) for step in path.steps))
        groups.setdefault(key, []).append(path)
    merged = [_merged(group) for group in groups.values()]
    return sorted(merged, key=lambda path: (-path.count, len(path.steps), repr(path)))


def _merged(group: list[HolderPath]) -> HolderPath:
    steps = []
    for several in zip(*(path.steps for path in group), strict=True):
        first = several[0]
        is_same = all(step.by == first.by for step in several)
        steps.append(first if is_same else HolderStep(first.type, first.shape, first.shape))
    return HolderPath(group[0].root, tuple(steps), sum(path.count for path in group))

# SPDX-License-Identifier: Apache-2.0
"""A profile as trees of stacks, for all formats with stacks.

A tree has one thread's calls, or its samples. If only caller and callee of a call are known, the
call is in a tree for all threads, in which each stack has these two frames.
"""

from __future__ import annotations

from soscope.frames.names import frame_label, frame_text
from soscope.instruments.prof.model import NOBODY
from soscope.model.call import StackFrame
from soscope.model.image import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.prof.model import ProfFunction, Profile, ProfThread


CALLS, SAMPLES = "calls", "samples"  # what a tree counts
_UNKNOWN = StackFrame(None, None, None)  # the frame of an unknown stack
_NO_NAME = "?"
ROOT = -1  # the parent of a node at the bottom of its stack


class ExportFrame(Record):
    """A frame of stacks; `addr` is its link-time address or 0, `path` the image's file."""

    __slots__ = ("addr", "path", "where")

    def __init__(self, where: StackFrame, addr: int, path: str) -> None:
        self.where = where
        self.addr = addr
        self.path = path

    def label(self) -> str:
        """Return the function's name, or its offset in the image."""
        return frame_label(self.where)

    def image(self) -> str:
        """Return the image's name, "" if it is not known or the frame is an interpreter's."""
        return self.where.image or ""

    def text(self) -> str:
        """Return image and function as one text, as in a folded stack."""
        return frame_text(self.where)


class StackTree(Record):
    """Nodes, each behind its parent; `frames` are indices into `Forest.frames`.

    `counts` are the calls of a node, or the samples in the node itself. `self_ns` is their time
    without that of the children, 0 if it is not known. `total_ns` is only known for calls.
    """

    __slots__ = ("counts", "frames", "is_timed", "kind", "parents", "self_ns", "thread", "total_ns")

    def __init__(self, thread: ProfThread | None, kind: str) -> None:
        self.thread = thread
        self.kind = kind
        self.is_timed = False
        self.frames: list[int] = []
        self.parents: list[int] = []
        self.counts: list[int] = []
        self.self_ns: list[int] = []
        self.total_ns: list[int | None] = []

    def add(self, parent: int, frame: int) -> int:
        """Add a node without data; return its index."""
        self.parents.append(parent)
        self.frames.append(frame)
        self.counts.append(0)
        self.self_ns.append(0)
        self.total_ns.append(None)
        return len(self.parents) - 1

    def weigh(self, node: int, count: int, self_ns: int | None, total_ns: int | None) -> None:
        """Add to a node's numbers; unknown numbers are None."""
        self.counts[node] += count
        if self_ns is not None:
            self.self_ns[node] += max(0, self_ns)
            self.is_timed = True
        if total_ns is not None:
            self.total_ns[node] = (self.total_ns[node] or 0) + total_ns

    def weights(self) -> list[int]:
        """Return the weight of each node itself: nanoseconds, or its count without times."""
        return self.self_ns if self.is_timed else self.counts

    def title(self) -> str:
        """Return a title for the tree: its thread, and whether it has samples."""
        name = "all threads"
        if self.thread is not None:
            name = f"{self.thread.name} {self.thread.pid}/{self.thread.tid}".strip()
        return f"{name} (samples)" if self.kind == SAMPLES else name


class Forest(Record):
    """All trees, calls before samples, and their frames.

    `program` is the command's name, and `pid` its process, 0 if not known. `pairs` is the number
    of functions whose only stacks are those of caller and callee. `uncounted` is the number of
    arcs that are left out, because their number of calls is not known.
    """

    __slots__ = ("frames", "pairs", "pid", "program", "trees", "uncounted")

    def __init__(self, profile: Profile) -> None:
        self.program = profile.command[0].rpartition("/")[2] if profile.command else ""
        self.pid = profile.threads[0].pid if profile.threads else 0
        self.frames: list[ExportFrame] = []
        self.trees: list[StackTree] = []
        self.pairs = 0
        self.uncounted = 0

    def has(self, kind: str) -> bool:
        """Return whether there are calls, or samples."""
        return any(tree.kind == kind for tree in self.trees)

    def is_timed(self, kind: str) -> bool:
        """Return whether the time of some calls, or of samples, is known."""
        return any(tree.kind == kind and tree.is_timed for tree in self.trees)

    def notes(self) -> list[str]:
        """Return notes on incomplete stacks."""
        notes = []
        if self.pairs:
            notes.append(
                f"of {self.pairs:,} functions only the callers are known: "
                "each of their stacks has two frames"
            )
        if self.uncounted:
            notes.append(f"{self.uncounted:,} arcs are left out: their calls are not counted")
        return notes


def frame_of(function: ProfFunction) -> ExportFrame:
    """Return the frame for a function in stacks."""
    symbol = None if function.symbol == _NO_NAME else function.symbol or None
    offset = function.addr or None if symbol is None else None
    image = function.image or None
    where = StackFrame(image, symbol, offset, function.file, function.line)
    return ExportFrame(where, function.addr, function.path)


def forest_of(profile: Profile, *, lines: bool = True) -> Forest:
    """Return the trees of a profile; with `lines`, each line of a sampled function is a frame."""
    forest = Forest(profile)
    numbers: dict[tuple[object, ...], int] = {}

    def number(frame: ExportFrame) -> int:
        key = *frame.where.values(), frame.addr, frame.path
        known = numbers.get(key)
        if known is None:
            known = numbers[key] = len(forest.frames)
            forest.frames.append(frame)
        return known

    known = _Known(profile)
    functions = [number(frame_of(function)) for function in profile.functions]
    _add_nodes(forest, profile, functions)
    _add_pairs(forest, profile, functions)
    _add_samples(forest, profile, lambda where: number(_sampled(where, known, lines=lines)))
    return forest


def _add_nodes(forest: Forest, profile: Profile, functions: list[int]) -> None:
    trees: dict[int, StackTree] = {}
    places: list[int] = []  # for each node, its index in its tree
    for node in profile.nodes:
        tree = trees.get(node.thread)
        if tree is None:
            tree = trees[node.thread] = StackTree(profile.threads[node.thread], CALLS)
        parent = ROOT if node.parent == NOBODY else places[node.parent]
        place = tree.add(parent, functions[node.function])
        tree.weigh(place, node.calls, node.self_ns, node.total_ns)
        places.append(place)
    forest.trees += trees.values()


def _add_pairs(forest: Forest, profile: Profile, functions: list[int]) -> None:
    """Add the calls of functions that are in no tree."""
    with_stacks = {node.function for node in profile.nodes if node.calls}
    tree = StackTree(None, CALLS)
    roots: dict[int, int] = {}
    callees = set()
    for arc in profile.arcs:
        if arc.callee in with_stacks:
            continue
        if arc.calls is None:
            forest.uncounted += 1
            continue
        callees.add(arc.callee)
        outer = arc.callee if arc.caller == NOBODY else arc.caller
        if outer not in roots:
            roots[outer] = tree.add(ROOT, functions[outer])
        node = roots[outer]
        if arc.caller != NOBODY:
            node = tree.add(node, functions[arc.callee])
        tree.weigh(node, arc.calls, arc.self_ns, arc.total_ns)
    if callees:
        forest.trees.append(tree)
        forest.pairs = len(callees)


def _add_samples(forest: Forest, profile: Profile, number: Callable[[StackFrame], int]) -> None:
    trees: dict[int, StackTree] = {}
    places: dict[tuple[int, int, int], int] = {}  # thread, parent, frame
    sample_ns = profile.sample_ns
    for sample in profile.samples:
        tree = trees.get(sample.thread)
        if tree is None:
            tree = trees[sample.thread] = StackTree(profile.threads[sample.thread], SAMPLES)
        node = ROOT
        for where in reversed(sample.frames or (_UNKNOWN,)):
            key = sample.thread, node, number(where)
            known = places.get(key)
            node = places[key] = tree.add(node, key[2]) if known is None else known
        time = None if sample_ns is None else sample.weight * sample_ns
        tree.weigh(node, sample.weight, time, None)
    forest.trees += trees.values()


class _Known:
    """What a profile's functions tell about sampled ones: files of images, and addresses."""

    def __init__(self, profile: Profile) -> None:
        self.addrs = {(known.image, known.symbol): known.addr for known in profile.functions}
        paths: dict[str, set[str]] = {}
        for function in profile.functions:
            if function.path:
                paths.setdefault(function.image, set()).add(function.path)
        self.paths = {image: min(those) for image, those in paths.items() if len(those) == 1}


def _sampled(where: StackFrame, known: _Known, *, lines: bool) -> ExportFrame:
    """Return the frame of a sample, which is the same for all addresses in a function's line."""
    image = where.image or ""
    if where.symbol is None:
        offset, addr = where.offset, where.offset or 0
    else:
        offset, addr = None, known.addrs.get((image, where.symbol), 0)
    line = where.line if lines else None
    frame = StackFrame(where.image, where.symbol, offset, where.file, line)
    return ExportFrame(frame, addr, known.paths.get(image, ""))

# SPDX-License-Identifier: Apache-2.0
"""A profile in the form that exports need: stack trees, functions, arcs, slices."""

from __future__ import annotations

from soscope.frames.names import frame_label, frame_text
from soscope.instruments.prof.model import NOBODY, ProfFunction
from soscope.model.call import StackFrame
from soscope.model.record import PlainRecord, Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.instruments.prof.model import Profile, ProfThread


# A profile as trees of stacks, for all formats with stacks.
#
# A tree has one thread's calls, or its samples. If only caller and callee of a call are known, the
# call is in a tree for all threads, in which each stack has these two frames.

CALLS, SAMPLES = "calls", "samples"  # what a tree counts
_UNKNOWN = StackFrame(None, None, None)  # the frame of an unknown stack
_NO_NAME = "?"
ROOT = -1  # the parent of a node at the bottom of its stack


class ExportFrame(Record):
    """A frame of stacks; `addr` is its link-time address or 0, `path` the image's file."""

    where: StackFrame
    addr: int
    path: str

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
    without the children's, 0 if it is not known. `total_ns` is only known for calls.
    """

    thread: ProfThread | None
    kind: str
    is_timed: bool = False
    frames: list[int] = fresh(list)
    parents: list[int] = fresh(list)
    counts: list[int] = fresh(list)
    self_ns: list[int] = fresh(list)
    total_ns: list[int | None] = fresh(list)

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


class Forest(PlainRecord):
    """All trees, calls before samples, and their frames.

    `program` is the command's name, and `pid` its process, 0 if not known. `pairs` is the number
    of functions whose stacks only have caller and callee. `uncounted` is the number of
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


# A profile as functions and the calls between them, for formats without stacks.
#
# Stacks of samples are converted to such calls, too. If a function is in a stack twice, the
# outermost one gets the time.


class GraphNode(Record):
    """A function: its calls, the self time, and the samples in the function itself."""

    function: ProfFunction
    calls: int = 0
    self_ns: int = 0
    samples: int = 0
    sampled_ns: int = 0


class GraphEdge(Record):
    """Calls of the node `callee` by the node `caller`, which may be NOBODY.

    `total_ns` is their time including nested calls. `samples` is the number of samples in them,
    and `sampled_ns` the time that these samples stand for.
    """

    caller: int
    callee: int
    calls: int = 0
    total_ns: int = 0
    samples: int = 0
    sampled_ns: int = 0


class CallGraph(Record):
    """All functions, and the calls between them by the functions' indices.

    `is_timed` tells that the time of calls is known. `uncounted` is how many arcs are left out,
    because their number of calls is not known.
    """

    nodes: list[GraphNode] = fresh(list)
    edges: dict[tuple[int, int], GraphEdge] = fresh(dict)
    has_calls: bool = False
    has_samples: bool = False
    is_timed: bool = False
    uncounted: int = 0
    pid: int = 0

    def edge(self, caller: int, callee: int) -> GraphEdge:
        """Return the edge between two nodes; add it if it is new."""
        key = caller, callee
        edge = self.edges.get(key)
        if edge is None:
            edge = self.edges[key] = GraphEdge(caller, callee)
        return edge

    def notes(self) -> list[str]:
        """Return notes on what the graph lacks."""
        if not self.uncounted:
            return []
        return [f"{self.uncounted:,} arcs are left out: their calls are not counted"]


def label(function: ProfFunction) -> str:
    """Return the name of a function; if that is not known, its offset in the image."""
    return frame_label(frame_of(function).where)


def call_graph_of(profile: Profile) -> CallGraph:
    """Return the functions and calls of a profile, over all threads."""
    graph = CallGraph()
    graph.nodes = [GraphNode(function) for function in profile.functions]
    _add_arcs(graph, profile)
    for place, (node, sums) in enumerate(zip(graph.nodes, profile.sums, strict=True)):
        if sums.self_ns is not None:
            node.self_ns = max(0, sums.self_ns)
            graph.is_timed = True
        if sums.calls is not None and sums.calls > node.calls:
            graph.edge(NOBODY, place).calls += sums.calls - node.calls
            node.calls = sums.calls
    graph.has_calls = any(node.calls for node in graph.nodes)
    forest = forest_of(profile)
    graph.pid = forest.pid
    _add_samples_callgraph(graph, forest)
    return graph


def _add_arcs(graph: CallGraph, profile: Profile) -> None:
    for arc in profile.arcs:
        if arc.calls is None:
            graph.uncounted += 1
            continue
        edge = graph.edge(arc.caller, arc.callee)
        node = graph.nodes[arc.callee]
        edge.calls += arc.calls
        node.calls += arc.calls
        if arc.total_ns is not None:
            edge.total_ns += max(0, arc.total_ns)
            graph.is_timed = True
        if arc.self_ns is not None:
            node.self_ns += max(0, arc.self_ns)
            graph.is_timed = True


def _add_samples_callgraph(graph: CallGraph, forest: Forest) -> None:
    places: dict[tuple[str, str, str | None], int] = {
        (node.function.image, node.function.symbol, None): place
        for place, node in reversed(list(enumerate(graph.nodes)))
    }
    known: dict[int, int] = {}  # by frames

    def place_of(number: int) -> int:
        place = known.get(number)
        if place is None:
            function, key = _function(forest.frames[number])
            place = places.setdefault(key, len(graph.nodes))
            if place == len(graph.nodes):
                graph.nodes.append(GraphNode(function))
            known[number] = place
        return place

    for tree in forest.trees:
        if tree.kind == SAMPLES:
            graph.has_samples = True
            _add_tree(graph, tree, [place_of(number) for number in tree.frames])


def _function(frame: ExportFrame) -> tuple[ProfFunction, tuple[str, str, str | None]]:
    """Return the function of a sampled frame, and a key that identifies it."""
    where, label = frame.where, frame.label()
    if where.image is None:
        return ProfFunction("", label, file=where.file), ("", label, where.file)
    function = ProfFunction(where.image, label, frame.addr, path=frame.path, file=where.file)
    return function, (where.image, label, None)


def _add_tree(graph: CallGraph, tree: StackTree, places: list[int]) -> None:
    """Add the samples of a thread; `places` are the nodes of its frames."""
    samples, times = list(tree.counts), list(tree.self_ns)
    for number in range(len(places) - 1, -1, -1):  # children come behind their parents
        node, parent = graph.nodes[places[number]], tree.parents[number]
        node.samples += tree.counts[number]
        node.sampled_ns += tree.self_ns[number]
        if parent != ROOT:
            samples[parent] += samples[number]
            times[parent] += times[number]
    above: list[frozenset[int]] = []  # for each node, the functions around it in its stack
    for number, place in enumerate(places):
        parent = tree.parents[number]
        around = frozenset() if parent == ROOT else above[parent] | {places[parent]}
        above.append(around)
        edge = graph.edge(NOBODY if parent == ROOT else places[parent], place)
        edge.samples += samples[number]
        if place not in around:
            edge.sampled_ns += times[number]


# Settings of an export: the format, and the weights of stacks.

# format -> endings of its files; endings with two parts precede those with one
ENDINGS: dict[str, tuple[str, ...]] = {
    "perfetto": (".pftrace", ".perfetto-trace"),
    "chrome": (".chrome.json",),
    "firefox": (".firefox.json",),
    "speedscope": (".speedscope.json",),
    "folded": (".folded",),
    "parquet": (".parquet",),
    "csv": (".csv",),
    "jsonl": (".jsonl",),
    "callgrind": (".callgrind",),
    "pprof": (".pprof", ".pb.gz"),
    "otlp": (".otlp",),
    "gmon": (),
    "json": (".json",),
}
FORMATS = tuple(ENDINGS)
BOTH_FORMATS = ("perfetto", "chrome", "firefox", "speedscope", "folded")
TIMED_FORMATS = ("perfetto", "chrome", "firefox", "speedscope")  # with times of calls
LINED_FORMATS = ("callgrind",)  # formats that identify functions by source files
CALL_FORMATS = (*BOTH_FORMATS, "parquet", "csv", "jsonl")  # formats for a recording of calls
PROFILE_FORMATS = (*BOTH_FORMATS, "callgrind", "gmon", "pprof", "otlp", "json")

NANOSECONDS, WEIGHS_CALLS, WEIGHS_SAMPLES = "ns", "calls", "samples"
WEIGHTS = (NANOSECONDS, WEIGHS_CALLS, WEIGHS_SAMPLES)


class ExportSettings(Record, kw_only=True):
    """`weight` of folded stacks, None for the best; `string_limit`: bytes of a string to print."""

    weight: str | None = None
    string_limit: int = 32


def format_of(path: str) -> str | None:
    """Return the format for a file's ending, None if it has none.

    >>> from soscope.export.profiles import format_of
    >>> format_of("run.pftrace")
    'perfetto'
    """
    for name, endings in ENDINGS.items():
        if path.lower().endswith(endings):
            return name
    return None


# A tree of stacks laid out on a time line, for viewers that only know slices.
#
# A profile does not have the time of single calls. A slice is a call path. It is as long as all its
# calls together, with the call paths inside it at its start, the longest first.


class SliceEnd(Record):
    """Where a node's slice begins or ends, in nanoseconds; in calls if no time is known."""

    node: int
    at: int
    is_begin: bool


def slices_of(tree: StackTree) -> Iterator[SliceEnd]:
    """Yield beginnings and ends in order, properly nested."""
    widths = list(tree.weights())
    inside: dict[int, list[int]] = {}
    for node in range(len(widths) - 1, -1, -1):  # children come behind their parents
        parent = tree.parents[node]
        inside.setdefault(parent, []).append(node)
        if parent != ROOT:
            widths[parent] += widths[node]
    for nodes in inside.values():
        nodes.sort(key=lambda node: (widths[node], -node))  # the last one is popped first
    at = 0
    left = inside.get(ROOT, [])
    todo = [(node, False) for node in left]
    begins: dict[int, int] = {}
    while todo:
        node, is_end = todo.pop()
        if is_end:
            at = begins.pop(node) + widths[node]
            yield SliceEnd(node, at, is_begin=False)
            continue
        begins[node] = at
        yield SliceEnd(node, at, is_begin=True)
        todo.append((node, True))
        todo += [(child, False) for child in inside.get(node, [])]


def said_of(tree: StackTree, node: int) -> list[tuple[str, int]]:
    """Return names and values of the known numbers of a node."""
    said = [(tree.kind, tree.counts[node])]
    if tree.is_timed:
        said.append(("self_ns", tree.self_ns[node]))
    total_ns = tree.total_ns[node]
    if total_ns is not None:
        said.append(("total_ns", total_ns))
    return said


def notes_of_slices(forest: Forest) -> list[str]:
    """Return notes on the meaning of slices."""
    notes = ["a profile has no times of single calls: a slice is all calls of one way together"]
    notes += [
        f"the time of {kind} is not known: each is shown as one nanosecond"
        for kind in (CALLS, SAMPLES)
        if any(tree.kind == kind and not tree.is_timed for tree in forest.trees)
    ]
    return notes + forest.notes()

# SPDX-License-Identifier: Apache-2.0
"""Views of a profile: flat rows, call trees, one library, one pattern of names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable

from soscope.errors import RecordingError, SoscopeError, UsageError
from soscope.instruments.prof.model import (
    NOBODY,
    ProfArc,
    ProfFunction,
    Profile,
    ProfSample,
    ProfSums,
)
from soscope.model.call import StackFrame, importance, is_told
from soscope.model.image import TracedImage
from soscope.model.record import Record, fresh
from soscope.select.filter import compile_selection, rules_matched
from soscope.select.patterns import Automaton, compile_glob

# A profile as rows of functions, images or threads, by calls or by samples.

CALLS, SAMPLES = "calls", "samples"

BY_FUNCTION, BY_IMAGE, BY_THREAD = "function", "image", "thread"
GROUPS = (BY_FUNCTION, BY_IMAGE, BY_THREAD)

UNKNOWN = "?"
ANY = "(any)"

_INTERNAL = "<internal:"  # path of a file inside of Ruby


class FlatRow(Record):
    """The numbers of a function, an image or a thread; unknown ones are None.

    `frame` names the function. `count` is a number of calls or of samples. `total_ns` includes
    the time of callees, and `self_ns` does not. `overhead_ns` is what has been subtracted from
    both. `doubt_ns` is the possible error of `self_ns`.
    """

    frame: StackFrame
    count: int | None = None
    total_ns: int | None = None
    self_ns: int | None = None
    overhead_ns: int | None = None
    doubt_ns: int | None = None

    def add(
        self,
        count: int | None,
        total_ns: int | None,
        self_ns: int | None,
        overhead_ns: int | None = None,
        doubt_ns: int | None = None,
    ) -> None:
        """Add the numbers of further calls or samples."""
        self.count = added(self.count, count)
        self.total_ns = added(self.total_ns, total_ns)
        self.self_ns = added(self.self_ns, self_ns)
        self.overhead_ns = added(self.overhead_ns, overhead_ns)
        self.doubt_ns = added(self.doubt_ns, doubt_ns)

    @property
    def is_told(self) -> bool:
        """Return whether `self_ns` is larger than its possible error."""
        return is_told(self.self_ns, self.doubt_ns)


class JoinedRow(Record):
    """Samples and calls of one function, image or thread; one of the two may be None.

    Times of `sampled` are processor time. Times of `called` include waiting.
    """

    sampled: FlatRow | None
    called: FlatRow | None

    @property
    def frame(self) -> StackFrame:
        """Return the frame that names it."""
        known = self.sampled or self.called
        assert known is not None
        return known.frame

    @property
    def is_told(self) -> bool:
        """Return whether the time of its calls is not known or larger than its possible error."""
        return self.called is None or self.called.is_told


def added(known: int | None, more: int | None) -> int | None:
    """Return the sum of two numbers; None counts as 0, unless both are None."""
    return known if more is None else more + (known or 0)


def frame_of(function: ProfFunction) -> StackFrame:
    """Return a function as a frame. A function without a name has its address as offset."""
    image = function.image or None
    if function.symbol == UNKNOWN and function.size:
        return StackFrame(image, None, function.addr)
    return StackFrame(image, function.symbol, None, function.file, function.line)


def frames_of(sample: ProfSample) -> list[StackFrame]:
    """Return a sample's frames. A frame in no known function is UNKNOWN of its image.

    A function without a name has its address as offset.
    """
    frames = sample.frames or (StackFrame(None, UNKNOWN, None),)
    return [
        frame
        if frame.symbol is not None or frame.offset is not None
        else StackFrame(frame.image, UNKNOWN, None)
        for frame in frames
    ]


def place_of(frame: StackFrame) -> Hashable:
    """Return a key that is equal for all frames of one function."""
    if frame.image is None:  # an interpreter's: the name may occur in many files
        return frame.symbol, frame.file
    return frame.image, frame.offset if frame.symbol is None else frame.symbol


def image_name(frame: StackFrame) -> str:
    """Return the name of a frame's image, or of an interpreter's file, "" if neither is known."""
    return frame.image or file_name(frame.file or "")


def file_name(file: str) -> str:
    """Return the last part of the path of an interpreter's file."""
    last = os.path.basename(file)
    if file.startswith(_INTERNAL) and last != file:
        return _INTERNAL + last  # the last part has the closing bracket
    return last


def function_name(frame: StackFrame) -> str:
    """Return the name to print: a symbol, else an address, ANY for a whole image, or UNKNOWN."""
    if frame.symbol is None and frame.offset is not None:
        return f"{frame.offset:#x}"
    return frame.symbol or (ANY if frame.symbol == "" and frame.image else UNKNOWN)


def function_rows(profile: Profile) -> list[FlatRow]:
    """Return a row for each function with known calls or times, largest first."""
    rows = []
    for function, sums in zip(profile.functions, profile.sums, strict=True):
        if any(value is not None for value in sums.values()):
            row = FlatRow(frame_of(function))
            row.add(sums.calls, sums.total_ns, sums.self_ns, sums.overhead_ns, sums.doubt_ns)
            rows.append(row)
    return _ranked(rows)


def sample_rows(profile: Profile) -> list[FlatRow]:
    """Return a row for each function that occurs in a sample, largest first.

    `count` is the number of samples in the function itself.
    """
    rows: dict[Hashable, FlatRow] = {}
    for sample in profile.samples:
        frames = frames_of(sample)
        innermost = place_of(frames[0])
        for place, frame in {place_of(frame): frame for frame in frames}.items():
            row = rows.setdefault(place, FlatRow(frame))
            own = sample.weight if place == innermost else 0
            row.add(own, sampled_ns(profile, sample.weight), sampled_ns(profile, own))
    return _ranked(rows.values())


def sampled_ns(profile: Profile, weight: int) -> int | None:
    """Return the time that `weight` samples stand for, None if that is not known."""
    return None if profile.sample_ns is None else weight * profile.sample_ns


def by_image(rows: list[FlatRow]) -> list[FlatRow]:
    """Add up rows of functions by image. Images call each other, so they have no total time."""
    images: dict[str, FlatRow] = {}
    for row in rows:
        name = image_name(row.frame)
        image = images.setdefault(name, FlatRow(StackFrame(name or UNKNOWN, None, None)))
        image.add(row.count, None, row.self_ns, row.overhead_ns, row.doubt_ns)
    return _ranked(images.values())


def by_thread(profile: Profile, what: str) -> list[FlatRow]:
    """Return a row for each thread, none if threads were not told apart."""
    threads: dict[int, FlatRow] = {}

    def row_of(at: int) -> FlatRow:
        return threads.setdefault(at, FlatRow(thread_frame(profile, at)))

    if what == CALLS:
        for node in profile.nodes:
            row_of(node.thread).add(node.calls, None, node.self_ns, None, node.doubt_ns)
    else:
        for sample in profile.samples:
            row_of(sample.thread).add(sample.weight, None, sampled_ns(profile, sample.weight))
    return _ranked(threads.values())


def tables_of(profile: Profile, by: str = BY_FUNCTION) -> dict[str, list[FlatRow]]:
    """Return the rows of CALLS and of SAMPLES. `by` is one of GROUPS."""
    if by == BY_THREAD:
        return {what: by_thread(profile, what) for what in (CALLS, SAMPLES)}
    tables = {CALLS: function_rows(profile), SAMPLES: sample_rows(profile)}
    if by == BY_IMAGE:
        return {what: by_image(rows) for what, rows in tables.items()}
    return tables


def joined(tables: dict[str, list[FlatRow]]) -> list[JoinedRow]:
    """Return the rows of `tables_of` with one row for each function, image or thread.

    Rows with most samples of their own come first, then those with the longest time by samples or
    calls.
    """
    sampled = {place_of(row.frame): row for row in tables[SAMPLES]}
    called: dict[Hashable, FlatRow] = {}
    for row in tables[CALLS]:
        into = called.setdefault(place_of(row.frame), FlatRow(row.frame))
        into.add(row.count, row.total_ns, row.self_ns, row.overhead_ns, row.doubt_ns)
    rows = [JoinedRow(sampled.get(at), called.get(at)) for at in {**sampled, **called}]
    return sorted(rows, key=_joined_rank)


def _joined_rank(row: JoinedRow) -> tuple[object, ...]:
    own = total = by_calls = 0
    if row.sampled is not None:
        own, total = row.sampled.self_ns or 0, row.sampled.total_ns or 0
    if row.called is not None and row.is_told:
        by_calls = row.called.self_ns or 0
    return -own, -max(total, by_calls), image_name(row.frame), row.frame.symbol or ""


def thread_frame(profile: Profile, at: int) -> StackFrame:
    """Return a frame that stands for a thread in a table of frames."""
    thread = profile.threads[at]
    name = f" ({thread.name})" if thread.name else ""
    return StackFrame(None, f"thread {thread.tid} of process {thread.pid}{name}", None)


def _ranked(rows: Iterable[FlatRow]) -> list[FlatRow]:
    rows = list(rows)
    whole = sum(row.self_ns or 0 for row in rows)
    return sorted(rows, key=lambda row: (importance(row.self_ns, row.doubt_ns, whole), *_rank(row)))


def _rank(row: FlatRow) -> tuple[object, ...]:
    largest = (-1 if value is None else value for value in (row.self_ns, row.total_ns, row.count))
    return (*(-value for value in largest), image_name(row.frame), row.frame.symbol or "")


# A profile as trees of functions: call paths, with counts and times.

# Tells whether a frame's function is one of the wanted functions.
Matches = Callable[[StackFrame], bool]


class Context(Record):
    """A function on one call path. `children` are by place, or by another key.

    `count` is a number of calls or of samples. `total_ns` includes the time of callees, and
    `self_ns` does not. `total_doubt_ns` and `doubt_ns` are the possible errors of these times.
    None means not known.
    """

    frame: StackFrame
    count: int | None = None
    total_ns: int | None = None
    self_ns: int | None = None
    doubt_ns: int | None = None
    total_doubt_ns: int | None = None
    children: dict[Hashable, Context] = fresh(dict)

    def below(self, place: Hashable, frame: StackFrame) -> Context:
        """Return the child for a function, which is made if there is none."""
        child = self.children.get(place)
        if child is None:
            child = self.children[place] = Context(frame)
        return child

    def add(
        self,
        count: int | None,
        total_ns: int | None,
        self_ns: int | None,
        doubt_ns: int | None = None,
        total_doubt_ns: int | None = None,
    ) -> None:
        """Add the numbers of further calls."""
        self.count = added(self.count, count)
        self.total_ns = added(self.total_ns, total_ns)
        self.self_ns = added(self.self_ns, self_ns)
        self.doubt_ns = added(self.doubt_ns, doubt_ns)
        self.total_doubt_ns = added(self.total_doubt_ns, total_doubt_ns)

    def take(self, other: Context) -> None:
        """Add the numbers of another context."""
        self.add(other.count, other.total_ns, other.self_ns, other.doubt_ns, other.total_doubt_ns)


class View(Record):
    """A tree. `root` is no function. Its sums include everything, not only what is shown.

    `what` tells what is counted, CALLS or SAMPLES. `is_whole` means that call paths are complete
    from the first function on. Else only pairs of caller and callee are known, and callers have
    no sums of their own. `is_inverted` means that callers are below what they call.
    """

    what: str
    root: Context
    is_whole: bool = True
    is_inverted: bool = False


def trees_of(profile: Profile, *, threads: bool = False) -> list[View]:
    """Return a tree for each source of the profile: call paths, pairs of functions, and samples.

    With `threads`, each thread has a tree of its own, if the source tells threads apart. If
    soscope chose how to record, samples come first, as they cover everything that ran.
    """
    views = []
    if profile.nodes:
        views.append(View(CALLS, _of_nodes(profile, threads=threads)))
    if arcs := _of_arcs(profile):
        views.append(View(CALLS, arcs, is_whole=False))
    if profile.samples:
        samples = View(SAMPLES, _of_samples(profile, threads=threads))
        views.insert(0 if profile.is_chosen else len(views), samples)
    return views


def callees_of(profile: Profile, matches: Matches) -> list[View]:
    """Return trees that begin with the functions that `matches` accepts, whoever called them."""
    views = []
    for view in trees_of(profile):
        root = _whole(view)
        for node, above in _walk(view.root):
            if matches(node.frame) and not any(matches(caller.frame) for caller in above):
                is_called = view.is_whole or bool(above)
                _merge(node, root.below(place_of(node.frame), node.frame), is_called=is_called)
        if root.children:
            views.append(View(view.what, root, is_whole=view.is_whole))
    return views


def callers_of(profile: Profile, matches: Matches) -> list[View]:
    """Return trees that begin with the functions that `matches` accepts, and go on to callers.

    The numbers of a caller count its calls of matching functions. If a matching
    function is called inside another one, its call counts, but its total time is not added again.
    """
    views = []
    for view in trees_of(profile):
        root = _whole(view)
        for node, above in _walk(view.root):
            if not matches(node.frame) or not (view.is_whole or above):
                continue
            is_inside = any(matches(caller.frame) for caller in above)
            total_ns = None if is_inside else node.total_ns
            total_doubt_ns = None if is_inside else node.total_doubt_ns
            at = root
            for step in (node, *reversed(above)):
                at = at.below(place_of(step.frame), step.frame)
                at.add(node.count, total_ns, node.self_ns, node.doubt_ns, total_doubt_ns)
        if root.children:
            views.append(View(view.what, root, is_whole=view.is_whole, is_inverted=True))
    return views


def _whole(view: View) -> Context:
    """Return a new root with the sums of the whole tree."""
    root = Context(view.root.frame)
    root.take(view.root)
    return root


def _walk(root: Context) -> Iterable[tuple[Context, list[Context]]]:
    """Yield each function below the root, with the functions above it.

    The list of functions above is one list that changes.
    """
    above: list[Context] = []
    rest: list[Context | None] = [*root.children.values()]
    while rest:
        node = rest.pop()
        if node is None:
            above.pop()
            continue
        yield node, above
        above.append(node)
        rest += (None, *node.children.values())


def _merge(source: Context, target: Context, *, is_called: bool) -> None:
    """Add a tree to another one. The numbers of its first function are added if it `is_called`."""
    rest = [(source, target)]
    while rest:
        context, into = rest.pop()
        if is_called or context is not source:
            into.take(context)
        for place, child in context.children.items():
            rest.append((child, into.below(place, child.frame)))


def _root() -> Context:
    return Context(StackFrame(None, None, None))


# ---- the three sources -----------------------------------------------------------


def _of_nodes(profile: Profile, *, threads: bool) -> Context:
    root = _root()
    frames = [frame_of(function) for function in profile.functions]
    made: list[Context] = []
    for node in profile.nodes:
        above = made[node.parent] if node.parent != NOBODY else root
        if node.parent == NOBODY:
            if threads:
                above = root.below(node.thread, thread_frame(profile, node.thread))
            for whole in {root, above}:
                whole.add(None, node.total_ns, None, None, node.total_doubt_ns)
        context = above.below(node.function, frames[node.function])
        context.add(node.calls, node.total_ns, node.self_ns, node.doubt_ns, node.total_doubt_ns)
        root.add(node.calls, None, node.self_ns, node.doubt_ns)
        made.append(context)
    return root


def _of_arcs(profile: Profile) -> Context | None:
    """Return callers with their callees, for pairs that no call path contains."""
    functions = [node.function for node in profile.nodes]
    known = {
        (NOBODY if node.parent == NOBODY else functions[node.parent], node.function)
        for node in profile.nodes
    }
    arcs = [arc for arc in profile.arcs if (arc.caller, arc.callee) not in known]
    if not arcs:
        return None
    root = _root()
    nobody = StackFrame(None, UNKNOWN, None)
    for arc in arcs:
        callee = frame_of(profile.functions[arc.callee])
        caller = nobody if arc.caller == NOBODY else frame_of(profile.functions[arc.caller])
        context = root.below(arc.caller, caller).below(arc.callee, callee)
        context.add(arc.calls, arc.total_ns, arc.self_ns, arc.doubt_ns, arc.total_doubt_ns)
        root.add(arc.calls, arc.self_ns, arc.self_ns, arc.doubt_ns, arc.doubt_ns)
    return root


def _of_samples(profile: Profile, *, threads: bool) -> Context:
    root = _root()
    for sample in profile.samples:
        weight = sample.weight
        time_ns = sampled_ns(profile, weight)
        root.add(weight, time_ns, time_ns)
        at = root
        if threads:
            at = root.below(sample.thread, thread_frame(profile, sample.thread))
            at.add(weight, time_ns, None)
        for frame in reversed(frames_of(sample)):
            at = at.below(place_of(frame), frame)
            at.add(weight, time_ns, 0 if time_ns is not None else None)
        at.add(0, None, time_ns)
    return root


# Functions of a profile by a pattern, NAME or NAME@IMAGE, with globs in both parts.

_NEAR = 3  # similar names in a hint


def matcher(pattern: str) -> Matches:
    """Return a function that tells whether a frame matches. C++ parameters may be left out.

    An image that stands for all its functions also matches by its own name. A pattern that is no
    glob is a name.
    """
    name, at, image = pattern.rpartition("@") if "@" in pattern else (pattern, "", "*")
    wanted, where = _compiled(name), _compiled(image)

    from soscope.live.names.demangle import plain_name

    def matches(frame: StackFrame) -> bool:
        if frame.symbol == "":
            return not (at and name) and _is(where if at else wanted, image_name(frame))
        called = function_name(frame)
        if called == pattern:
            return True
        if not _is(where, image_name(frame)):
            return False
        is_cxx = called.endswith(")")
        return _is(wanted, called) or (is_cxx and _is(wanted, plain_name(called)))

    return matches


def _compiled(glob: str) -> Automaton | str:
    try:
        return compile_glob(glob)
    except UsageError:
        return glob  # `operator[]` is a name, no pattern


def _is(pattern: Automaton | str, name: str) -> bool:
    if isinstance(pattern, str):
        return pattern == name
    return pattern.matches(name.encode("utf-8", "surrogateescape"))


def nothing_called(profile: Profile, pattern: str) -> RecordingError:
    """Return the error that no function matches, with similar names as hint."""
    frames = [frame_of(function) for function in profile.functions]
    frames += [frame for sample in profile.samples for frame in sample.frames]
    names = {frame.symbol or image_name(frame) for frame in frames} - {""}
    from difflib import get_close_matches

    near = get_close_matches(pattern.rpartition("@")[0] or pattern, sorted(names), n=_NEAR)
    return RecordingError(
        f"no function of the profile is called '{pattern}'",
        hint=f"there is {', '.join(near)}" if near else None,
    )


# Adds up the arcs of a profile, and from them the numbers of each function.


class ArcSums:
    """Fills a profile whose calls are known as arcs."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._functions: dict[tuple[str, str, int | str], int] = {}
        self._arcs: dict[tuple[int, int], ProfArc] = {}
        self._overhead: dict[int, int] = {}

    @property
    def callees(self) -> frozenset[int]:
        """Return the indices of all functions whose calls are known so far."""
        return frozenset(callee for _, callee in self._arcs)

    def function(self, function: ProfFunction) -> int:
        """Return the index of a function in the profile. One address is one function."""
        key = function.path, function.image, function.addr or function.symbol
        at = self._functions.get(key)
        if at is None:
            at = self._functions[key] = len(self._profile.functions)
            self._profile.functions.append(function)
        return at

    def image(self, image: TracedImage | None) -> int:
        """Return the index of the entry that stands for all functions of an image."""
        if image is None:
            return NOBODY
        return self.function(ProfFunction(image.label, "", path=image.path))

    def add(
        self,
        caller: int,
        callee: int,
        calls: int | None,
        total_ns: int | None = None,
        self_ns: int | None = None,
        doubt_ns: int | None = None,
        total_doubt_ns: int | None = None,
    ) -> None:
        """Add calls of `callee` by `caller`, which may be NOBODY."""
        arc = self._arcs.get((caller, callee))
        if arc is None:
            self._arcs[caller, callee] = ProfArc(
                caller, callee, calls, total_ns, self_ns, doubt_ns, total_doubt_ns
            )
            return
        arc.calls = _plus(arc.calls, calls)
        arc.total_ns = _plus(arc.total_ns, total_ns)
        arc.self_ns = _plus(arc.self_ns, self_ns)
        # A part of a time is no time, but a part of an error is a lower bound of it.
        arc.doubt_ns = added(arc.doubt_ns, doubt_ns)
        arc.total_doubt_ns = added(arc.total_doubt_ns, total_doubt_ns)

    def add_overhead(self, function: int, ns: int) -> None:
        """Add the overhead that was subtracted from a function's times."""
        self._overhead[function] = self._overhead.get(function, 0) + ns

    def finish(self) -> None:
        """Store the arcs and the sums of all functions in the profile."""
        profile = self._profile
        profile.arcs = list(self._arcs.values())
        sums: dict[int, ProfSums] = {}
        for arc in profile.arcs:
            of = sums.get(arc.callee)
            if of is None:
                of = sums[arc.callee] = ProfSums(arc.calls, arc.total_ns, arc.self_ns)
            else:
                of.calls = _plus(of.calls, arc.calls)
                of.total_ns = _plus(of.total_ns, arc.total_ns)
                of.self_ns = _plus(of.self_ns, arc.self_ns)
            of.doubt_ns = added(of.doubt_ns, arc.doubt_ns)
            profile.calls += arc.calls or 0
        for of in sums.values():
            # The outermost call may end or begin while a call inside it goes on, if a signal
            # handler runs in its hook, or with coroutines.
            if of.total_ns is not None and of.self_ns is not None:
                of.total_ns = max(of.total_ns, of.self_ns)
        for function, ns in self._overhead.items():
            sums[function].overhead_ns = ns
        profile.sums = [sums.get(at, ProfSums()) for at in range(len(profile.functions))]


def _plus(left: int | None, right: int | None) -> int | None:
    """Return the sum, None if one of the two is not known."""
    return None if left is None or right is None else left + right


# Patterns of `-l` that match no image of any profiled program.


def unmet(patterns: list[str], images: Iterable[TracedImage]) -> list[str]:
    """Return a line for each pattern (as of `-l`) that matches none of the images."""
    try:
        selection = compile_selection([], [], patterns)
    except UsageError:
        return []  # a recording from another version
    counts = [0] * len(selection.words)
    for image in images:
        names = image.name, image.path, image.is_main
        for number, is_matched in enumerate(rules_matched(selection, "", names, names)):
            counts[number] += is_matched
    return [f"-l {word.text} matches no image" for word in selection.unmatched(counts)]


# Finds the library that a file of LD_PROFILE is about, by the file's name.

SUFFIX = ".profile"


def library_of(path: str) -> str | None:
    """Return the path of the library that the file at `path` may be about, None if not found.

    If LD_PROFILE was set to a path, that path follows the folder of profiles. Else it is a file
    beside the profile, or the one that a loader finds by that name, with the present
    LD_LIBRARY_PATH.
    """
    from soscope.linker.library import Library, open_image
    from soscope.linker.paths import Root
    from soscope.linker.search import program_of, shared_system

    full = os.path.abspath(path)
    if not full.endswith(SUFFIX):
        return None
    parts = full.removesuffix(SUFFIX).split("/")
    for first in range(1, len(parts) - 1):
        below = "/" + "/".join(parts[first:])
        if os.path.isfile(below):
            return below
    try:
        program = program_of(open_image(sys.executable), sys.executable, Root(""))
        system = shared_system(Root(""), program, os.environ.get("LD_LIBRARY_PATH", ""))
        place, library = system.plain(parts[-1])
    except (OSError, SoscopeError):
        return None  # the user is asked for it
    return place if isinstance(library, Library) else None

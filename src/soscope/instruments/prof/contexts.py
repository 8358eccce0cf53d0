# SPDX-License-Identifier: Apache-2.0
"""A profile as trees of functions: call paths, with counts and times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from soscope.instruments.prof.model import NOBODY, Profile
from soscope.instruments.prof.views import (
    CALLS,
    SAMPLES,
    UNKNOWN,
    added,
    frame_of,
    frames_of,
    place_of,
    sampled_ns,
    thread_frame,
)
from soscope.model.call import StackFrame
from soscope.model.image import Record

# Tells whether a frame's function is one of the wanted functions.
Matches = Callable[[StackFrame], bool]


class Context:
    """A function on one call path. `children` are by place, or by another key.

    `count` is a number of calls or of samples. `total_ns` includes the time of callees, and
    `self_ns` does not. `total_doubt_ns` and `doubt_ns` are the possible errors of these times.
    None means not known.
    """

    __slots__ = (
        "children",
        "count",
        "doubt_ns",
        "frame",
        "self_ns",
        "total_doubt_ns",
        "total_ns",
    )

    def __init__(self, frame: StackFrame) -> None:
        self.frame = frame
        self.count: int | None = None
        self.total_ns: int | None = None
        self.self_ns: int | None = None
        self.doubt_ns: int | None = None
        self.total_doubt_ns: int | None = None
        self.children: dict[Hashable, Context] = {}

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
    """A tree. `root` is no function; its sums are those of everything, not only of what is shown.

    `what` tells what is counted, CALLS or SAMPLES. `is_whole` means that call paths are complete
    from the first function on. Else only pairs of caller and callee are known, and callers have
    no sums of their own. `is_inverted` means that callers are below what they call.
    """

    __slots__ = ("is_inverted", "is_whole", "root", "what")

    def __init__(
        self, what: str, root: Context, *, is_whole: bool = True, is_inverted: bool = False
    ) -> None:
        self.what = what
        self.root = root
        self.is_whole = is_whole
        self.is_inverted = is_inverted


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

    The numbers of a caller are those of the matching functions that it has called. If a matching
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

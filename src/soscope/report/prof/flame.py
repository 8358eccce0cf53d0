# SPDX-License-Identifier: Apache-2.0
"""A profile as flame graphs: of call paths, of pairs of functions, and of samples, if any."""

from __future__ import annotations

from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.views import (
    UNKNOWN,
    Context,
    View,
    function_name,
    image_name,
    trees_of,
)
from soscope.model.call import StackFrame
from soscope.report.flame import page as flamepage
from soscope.report.flame import picture
from soscope.report.flame.tree import FlameGraph, FlameNode, Frame
from soscope.report.markdown.values import time_text
from soscope.report.prof.text import remarks, untold_functions
from soscope.report.words import plural

_NAMES = "a function, file or image"


def document(profile: Profile, *, threads: bool = False) -> str:
    """Return the text of the picture. With `threads` each thread has frames of its own."""
    return picture.document(_title(profile), _graphs(profile, threads=threads), _said(profile))


def page(profile: Profile, *, threads: bool = False) -> str:
    """Return the HTML page around the picture."""
    graphs = _graphs(profile, threads=threads)
    return flamepage.page(_title(profile), graphs, _said(profile), _NAMES)


def _said(profile: Profile) -> list[str]:
    return [*remarks(profile), *untold_functions(profile)]


def _title(profile: Profile) -> str:
    return " ".join(f"profile of {' '.join(profile.command)}".split())


def _graphs(profile: Profile, *, threads: bool) -> list[FlameGraph]:
    views = trees_of(profile, threads=threads)
    return [_graph(view) for view in views]


def _graph(view: View) -> FlameGraph:
    timed = view.root.self_ns is not None or view.root.total_ns is not None
    root = FlameNode(f"all {view.what}")
    _fill(root, view.root, timed=timed)
    amount = time_text if timed else _calls_text
    head = plural(root.count, view.what[:-1])
    if timed:
        head += f" of {time_text(root.weight)}; the wider a frame, the longer it took"
    elif root.weight:
        head += "; the wider a frame, the more calls were made in it and below it"
    if not view.is_whole:
        head += "; of these the callers are known, and not the ways to them"
    return FlameGraph(root, head, amount, view.what[:-1])


def _calls_text(count: int) -> str:
    return f"{plural(count, 'call')}, with those inside"


def _fill(root: FlameNode, tree: Context, *, timed: bool) -> None:
    """Copy a tree. A frame is as wide as its own part and the frames below it.

    So no frame is wider than the frame around it, however times were corrected.
    """
    order = [(tree, root)]
    for context, node in order:
        order += [(child, node.below(_frame(child.frame))) for child in context.children.values()]
    weights: dict[int, int] = {}
    for context, node in reversed(order):
        below = sum(weights[id(child)] for child in context.children.values())
        own = 0 if context is tree else _own(context, timed=timed)
        weights[id(context)] = own + below
        node.weight += own + below
        node.count += context.count or 0


def _own(context: Context, *, timed: bool) -> int:
    """Return a function's own part, or all of it if it calls nothing."""
    own = context.self_ns if timed else context.count
    if own is None and timed and not context.children:
        own = context.total_ns
    return max(own or 0, 0)


def _frame(frame: StackFrame) -> Frame:
    name, image = function_name(frame), image_name(frame)
    is_named = bool(frame.symbol) and frame.symbol != UNKNOWN
    label = name if is_named or not image else f"{image} {name}"
    about = f"{label}\nin {image}" if image else label
    if frame.file is not None:
        about += f"\n{frame.file}:{frame.line}"
    return (name, frame.image, frame.file), label, about, image or UNKNOWN

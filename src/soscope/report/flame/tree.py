# SPDX-License-Identifier: Apache-2.0
"""The tree that a flame graph draws."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

# The key of a frame among its siblings, label, about, family.
Frame = tuple[Hashable, str, str, str]


class FlameNode:
    """A frame with everything in it or below it. `weight` determines its width.

    `count` is the number of things in it. `label` is short, and `about` tells more. Nodes of one
    `family` (an image, a file) have the same colour. `children` are by key.
    """

    __slots__ = ("about", "children", "count", "family", "label", "weight")

    def __init__(self, label: str, about: str = "", family: str = "") -> None:
        self.label = label
        self.about = about or label
        self.family = family or label
        self.weight = self.count = 0
        self.children: dict[Hashable, FlameNode] = {}

    def add(self, frames: Iterable[Frame], count: int, weight: int) -> None:
        """Add things that are in these frames, outermost first."""
        node = self
        node.count += count
        node.weight += weight
        for frame in frames:
            node = node.below(frame)
            node.count += count
            node.weight += weight

    def below(self, frame: Frame) -> FlameNode:
        """Return the child for a frame, which is made if there is none."""
        key, *said = frame
        node = self.children.get(key)
        if node is None:
            node = self.children[key] = FlameNode(*said)
        return node

    def all(self) -> Iterable[FlameNode]:
        """Yield this node and all nodes below it."""
        rest = [self]
        while rest:
            node = rest.pop()
            rest += node.children.values()
            yield node


class FlameGraph:
    """One graph of a picture: the tree below `root`, and the line `head` above it.

    `amount` returns a weight in words. `things` is the singular of what is counted, "" if nothing
    is.
    """

    __slots__ = ("amount", "head", "root", "things")

    def __init__(
        self, root: FlameNode, head: str, amount: Callable[[int], str], things: str = ""
    ) -> None:
        self.root = root
        self.head = head
        self.amount = amount
        self.things = things

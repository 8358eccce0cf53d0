# SPDX-License-Identifier: Apache-2.0
"""Flame graphs: the tree of frames, the SVG picture, and the interactive page."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Callable, Hashable, Iterable

from soscope.model.call import printable
from soscope.model.record import Record
from soscope.report.words import escaped, plural, shortened

# The tree that a flame graph draws.

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


class FlameGraph(Record):
    """One graph of a picture: the tree below `root`, and the line `head` above it.

    `amount` returns a weight in words. `things` is the singular of what is counted, "" if nothing
    is.
    """

    root: FlameNode
    head: str
    amount: Callable[[int], str]
    things: str = ""


# Flame graphs in SVG.
#
# The outermost frame is on top. The width of a frame stands for its own weight and the weight of
# the frames below it. The picture contains everything it shows: nothing is loaded, and no script
# runs.

LARGEST = 4_900_000  # bytes of a picture, at most

ROOM, MARGIN = 1180, 10  # width for frames, and margin beside them
_HEAD, _FOOT = 44, 20
_WIDTH = ROOM + 2 * MARGIN
ROW, _BAR = 18, 17
LETTER = 6.7  # width of a letter
_LEAST_LETTERS = 3
_MOST = 8000  # frames
_LONGEST = 300  # letters of a line in a tooltip
_GREY = "#d8d8d8"
_STYLE = "text{font:11px monospace}.f text{pointer-events:none}.f:hover rect{stroke:#000000}"


class _Bar(Record):
    """A frame in the picture: `depth` rows down, with `before` weight to its left."""

    node: FlameNode
    depth: int
    before: int


class _Bars:
    """The bars of one graph. Frames of less weight than `least` are joined, or left out.

    `merged` is the number of these frames, and `merged_weight` their weight.
    """

    def __init__(self, graph: FlameGraph, least: float) -> None:
        self.graph = graph
        root = graph.root
        self.bars: list[_Bar] = []
        self.merged = self.merged_weight = 0
        self._least = least
        rest = [_Bar(root, 0, 0)] if root.weight else []
        while rest:
            bar = rest.pop()
            self.bars.append(bar)
            rest += self._below(bar)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return 1 + max((bar.depth for bar in self.bars), default=0)

    def _below(self, bar: _Bar) -> list[_Bar]:
        """Return the bars of a frame's children, widest first. Narrow children become one bar."""
        below: list[_Bar] = []
        before, depth = bar.before, bar.depth + 1
        children = sorted(bar.node.children.values(), key=lambda child: -child.weight)
        wide = [child for child in children if child.weight >= self._least]
        for child in wide:
            below.append(_Bar(child, depth, before))
            before += child.weight
        narrow = children[len(wide) :]
        count = sum(1 for child in narrow for _ in child.all())
        rest = FlameNode(f"… {plural(count, 'narrow frame')}")
        rest.add([], sum(child.count for child in narrow), sum(child.weight for child in narrow))
        self.merged += count
        self.merged_weight += rest.weight
        if rest.weight and rest.weight >= self._least:
            rest.family = ""
            below.append(_Bar(rest, depth, before))
        return below


def document(title: str, graphs: list[FlameGraph], notes: list[str]) -> str:
    """Return the text of the picture, of at most LARGEST bytes, one graph below the other."""
    most = _MOST
    while True:
        text = _document(title, [_fitted(graph, most) for graph in graphs], notes)
        if len(text.encode()) <= LARGEST or most < 2:
            return text
        most //= 2


def _fitted(graph: FlameGraph, most: int) -> _Bars:
    """Return at most `most` bars that are at least a pixel wide."""
    weights = sorted((node.weight for node in graph.root.all()), reverse=True)
    least = max(graph.root.weight / ROOM, 1)
    if len(weights) > most:
        least = max(least, weights[most] + 1)
    return _Bars(graph, least)


def _document(title: str, graphs: list[_Bars], notes: list[str]) -> str:
    lines: list[str] = []
    y = _HEAD
    for bars in graphs:
        lines += _section(bars, y)
        y += ROW + bars.rows * ROW + _FOOT + ROW
    lines += [_text(MARGIN, y + ROW * at, note) for at, note in enumerate(notes)]
    height = y + ROW * len(notes)
    size = f'width="{_WIDTH}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {height}">',
            f"<title>{_line(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect {size} fill="#ffffff"/>',
            _text(MARGIN, 22, title, ' style="font:bold 16px sans-serif"'),
            *lines,
            "</svg>\n",
        ]
    )


def _section(bars: _Bars, y: int) -> list[str]:
    """Return the lines of one graph, from `y` on."""
    graph = bars.graph
    lines = [_text(MARGIN, y + 12, graph.head)]
    lines.append('<g class="tree">')
    lines += [_bar(bar, graph, y + ROW) for bar in bars.bars]
    lines.append("</g>")
    if bars.merged:
        frames = plural(bars.merged, "frame")
        amount = graph.amount(bars.merged_weight)
        said = f"{frames} of {amount} are too narrow to be seen: drawn together, in grey"
        lines.append(_text(MARGIN, y + ROW + bars.rows * ROW + 14, said))
    return lines


def _bar(bar: _Bar, graph: FlameGraph, top: int) -> str:
    node, whole = bar.node, graph.root.weight
    x = MARGIN + ROOM * bar.before / whole
    wide = ROOM * node.weight / whole
    y = top + bar.depth * ROW
    about = "\n".join(map(_line, node.about.split("\n")))
    share = f"{graph.amount(node.weight)} ({100 * node.weight / whole:.1f} %)"
    if graph.things and node.count:  # a caller may have calls that were not counted
        share += f" in {plural(node.count, graph.things)}"
    letters = int((wide - 6) / LETTER)
    text = ""
    if letters >= _LEAST_LETTERS:
        name = printable(node.label)
        shown = name if len(name) <= letters else f"{name[: letters - 1]}…"
        text = f'<text x="{x + 3:.1f}" y="{y + 13}">{escaped(shown)}</text>'
    return (
        f'<g class="f"><title>{about}\n{share}</title>'
        f'<rect x="{x:.1f}" y="{y}" width="{max(wide - 0.5, 0.5):.1f}" height="{_BAR}"'
        f' fill="{_colour(node.family)}"/>{text}</g>'
    )


def _colour(family: str) -> str:
    """Return a light colour, the same for all frames of one image or file."""
    if not family:
        return _GREY
    hue = zlib.crc32(family.encode("utf-8", "replace")) % 360 / 360
    parts = colorsys.hls_to_rgb(hue, 0.78, 0.65)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)


def _text(x: float, y: float, text: str, style: str = "") -> str:
    shown = escaped(shortened(printable(text), 110 if style else 170))
    return f'<text x="{x}" y="{y}"{style}>{shown}</text>'


def _line(text: str) -> str:
    return escaped(shortened(printable(text), _LONGEST))


# A flame graph as an HTML page, in which frames can be widened and searched.
#
# The page contains everything it shows, including its script: nothing is loaded.

# The page loads nothing, and has no links.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'"
)

_PAGE_STYLE = """\
body { margin: 12px; font: 13px sans-serif }
kbd { border: 1px solid #999999; border-radius: 3px; padding: 0 3px }
#said { white-space: pre-line; min-height: 3.9em; margin: 0 10px; font: 12px monospace }
.f { cursor: pointer; outline: none }
.f:focus rect { stroke: #000000; stroke-width: 2 }
.f.marked rect { fill: #e040fb }
"""

# A frame that is clicked gets the whole width, with all frames around it, and frames beside it are
# hidden. One frame at a time can be reached by the tab key, and the arrow keys go on from there.
_SCRIPT = """\
const frames = [...document.querySelectorAll(".f")].map(g => {
  const rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
  const at = name => Number(rect.getAttribute(name));
  return {g, rect, title, label: title.split("\\n")[0], text: g.querySelector("text"),
          x: at("x") - margin, y: at("y"), width: at("width") + 0.5, above: null, below: []};
});
const of = new Map(frames.map(f => [f.g, f]));
const rows = new Map();
for (const f of frames) {
  if (!rows.has(f.g.parentNode)) rows.set(f.g.parentNode, new Map());
  const tree = rows.get(f.g.parentNode), middle = f.x + f.width / 2;
  if (!tree.has(f.y)) tree.set(f.y, []);
  tree.get(f.y).push(f);
  f.above = (tree.get(f.y - row) || []).find(a => a.x <= middle && middle <= a.x + a.width) || null;
  if (f.above) f.above.below.push(f);
}
for (const tree of rows.values()) for (const list of tree.values()) list.sort((a, b) => a.x - b.x);
const isShown = f => f.g.style.display !== "none";
function zoom(to) {
  const scale = room / to.width;
  for (const f of frames) {
    if (f.g.parentNode !== to.g.parentNode) continue;
    const middle = f.x + f.width / 2;
    const isAbove = f.y < to.y && f.x <= to.x + 0.1 && f.x + f.width >= to.x + to.width - 0.1;
    const isBelow = f.y >= to.y && middle >= to.x && middle <= to.x + to.width;
    f.g.style.display = isAbove || isBelow ? "" : "none";
    if (!isAbove && !isBelow) continue;
    const x = isAbove ? 0 : (f.x - to.x) * scale, width = isAbove ? room : f.width * scale;
    f.rect.setAttribute("x", margin + x);
    f.rect.setAttribute("width", Math.max(width - 0.5, 0.5));
    const letters = Math.floor((width - 6) / letter);
    if (!f.text) {
      f.text = f.g.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "text"));
      f.text.setAttribute("y", f.y + 13);
    }
    f.text.setAttribute("x", margin + x + 3);
    f.text.textContent = letters < 3 ? "" :
      f.label.length <= letters ? f.label : f.label.slice(0, letters - 1) + "…";
  }
}
function showAll() {
  for (const tree of rows.keys()) zoom(of.get(tree.firstElementChild));
}
const said = document.getElementById("said"), field = document.getElementById("name");
let current = frames[0];
function choose(f) {
  if (!f) return;
  if (!isShown(f)) zoom(f);
  current.g.setAttribute("tabindex", -1);
  current = f;
  f.g.setAttribute("tabindex", 0);
  f.g.focus();
}
function mark() {
  const wanted = field.value.toLowerCase();
  let count = 0, part = 0, whole = 0;
  for (const f of frames) {  // each stands behind the one above it
    f.isMarked = wanted !== "" && f.title.toLowerCase().includes(wanted);
    f.g.classList.toggle("marked", f.isMarked);
    f.isInside = f.above !== null && (f.above.isMarked || f.above.isInside);
    if (f.above === null) whole += f.width;
    if (f.isMarked) count++;
    if (f.isMarked && !f.isInside) part += f.width;
  }
  document.getElementById("marked").textContent = wanted === "" ? "" :
    `${count} marked, ${whole ? (100 * part / whole).toFixed(1) : 0} % of the width`;
}
function next(step) {
  const list = frames.filter(f => f.isMarked);
  if (!list.length) return;
  const at = list.indexOf(current);
  choose(list[at < 0 ? (step > 0 ? 0 : list.length - 1) : (at + step + list.length) % list.length]);
}
function beside(step) {
  const list = rows.get(current.g.parentNode).get(current.y).filter(isShown);
  return list[list.indexOf(current) + step];
}
for (const f of frames) {
  f.g.setAttribute("tabindex", f === current ? 0 : -1);
  f.g.addEventListener("click", () => { choose(f); zoom(f); });
  for (const name of ["mouseenter", "focus"])
    f.g.addEventListener(name, () => { said.textContent = f.title; });
}
document.getElementById("all").addEventListener("click", showAll);
field.addEventListener("input", mark);
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || !frames.length) return;
  const isField = event.target === field, key = event.key;
  if (isField && key !== "Escape" && key !== "Enter") return;
  if (event.target.id === "all" && (key === "Enter" || key === " ")) return;
  const widest = () => current.below.filter(isShown).sort((a, b) => b.width - a.width)[0];
  const keys = {
    ArrowUp: () => choose(current.above), ArrowDown: () => choose(widest()),
    ArrowLeft: () => choose(beside(-1)), ArrowRight: () => choose(beside(1)),
    Enter: () => isField ? next(1) : zoom(current), " ": () => zoom(current),
    n: () => next(1), N: () => next(-1), "/": () => field.select(),
    Escape: () => { if (isField) { field.value = ""; mark(); field.blur(); } else showAll(); },
  };
  if (!(key in keys)) return;
  event.preventDefault();
  keys[key]();
});
"""


def page(title: str, graphs: list[FlameGraph], notes: list[str], names: str) -> str:
    """Return the HTML page around the picture. `names` tells what can be searched."""
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escaped(title)}</title>
<style>
{_PAGE_STYLE}</style>
</head>
<body>
<p>Click a frame to widen it. <button id="all">show all</button>
<label>mark <input id="name" placeholder="{escaped(names)}"></label>
<span id="marked"></span></p>
<p>Keys: <kbd>↑</kbd> <kbd>↓</kbd> <kbd>←</kbd> <kbd>→</kbd> go to the next frame,
<kbd>Enter</kbd> widens it, <kbd>Esc</kbd> shows all, <kbd>/</kbd> marks,
<kbd>n</kbd> <kbd>N</kbd> go to the next marked frame.</p>
<p id="said"></p>
{document(title, graphs, notes)}<script>
const room = {ROOM}, margin = {MARGIN};
const letter = {LETTER}, row = {ROW};
{_SCRIPT}</script>
</body>
</html>
"""

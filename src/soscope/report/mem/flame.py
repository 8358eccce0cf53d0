# SPDX-License-Identifier: Apache-2.0
"""What is alive as a flame graph, in SVG.

The outermost frame is on top, and each is as wide as the bytes that were made in it or below it.
The picture holds all it shows: nothing is loaded, and no script runs.
"""

from __future__ import annotations

import colorsys
import zlib

from soscope.instruments.mem.flame import FlameNode, flames_of
from soscope.report.mem.text import size_text, state_lines
from soscope.report.picture import escaped, shortened
from soscope.report.words import plural, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.mem.model import MemReport

LARGEST = 4_900_000  # bytes of a picture

ROOM, MARGIN = 1180, 10  # for frames, and beside them
_HEAD, _FOOT = 44, 20
_WIDTH = ROOM + 2 * MARGIN
_ROW, _BAR = 18, 17
LETTER = 6.7  # width of a letter
_LEAST_LETTERS = 3
_MOST = 8000  # frames
_LONGEST = 300  # letters of a line in a tooltip
_GREY = "#d8d8d8"
_STYLE = "text{font:11px monospace}.f text{pointer-events:none}.f:hover rect{stroke:#000000}"


class _Bar:
    """A frame in the picture: of `node`, `depth` rows down, and `before` bytes to the right."""

    __slots__ = ("before", "depth", "node")

    def __init__(self, node: FlameNode, depth: int, before: int) -> None:
        self.node = node
        self.depth = depth
        self.before = before


class _Bars:
    """The bars of one tree. Frames of fewer bytes than `least` are drawn together, if at all.

    `merged` is how many those are, `merged_bytes` what was made there.
    """

    def __init__(self, root: FlameNode, least: float) -> None:
        self.root = root
        self.bars: list[_Bar] = []
        self.merged = self.merged_bytes = 0
        self._least = least
        rest = [_Bar(root, 0, 0)] if root.bytes else []
        while rest:
            bar = rest.pop()
            self.bars.append(bar)
            rest += self._below(bar)

    @property
    def rows(self) -> int:
        """How many rows they take."""
        return 1 + max((bar.depth for bar in self.bars), default=0)

    def _below(self, bar: _Bar) -> list[_Bar]:
        """Return the bars of a frame's children, the widest first; those too narrow as one."""
        below: list[_Bar] = []
        before, depth = bar.before, bar.depth + 1
        children = sorted(bar.node.children.values(), key=lambda child: -child.bytes)
        wide = [child for child in children if child.bytes >= self._least]
        for child in wide:
            below.append(_Bar(child, depth, before))
            before += child.bytes
        narrow = children[len(wide) :]
        count = sum(1 for child in narrow for _ in child.all())
        rest = FlameNode(f"… {plural(count, 'narrow frame')}")
        rest.add([], sum(child.count for child in narrow), sum(child.bytes for child in narrow))
        self.merged += count
        self.merged_bytes += rest.bytes
        if rest.bytes and rest.bytes >= self._least:
            rest.family = ""
            below.append(_Bar(rest, depth, before))
        return below


def document(report: MemReport) -> str:
    """Return the text of the picture: it has at most LARGEST bytes."""
    flames = flames_of(report)
    most = _MOST
    while True:
        text = _document(report, {what: _fitted(root, most) for what, root in flames.items()})
        if len(text.encode()) <= LARGEST or most < 2:
            return text
        most //= 2


def _fitted(root: FlameNode, most: int) -> _Bars:
    """Return at most `most` bars, of at least a pixel."""
    sizes = sorted((node.bytes for node in root.all()), reverse=True)
    least = max(root.bytes / ROOM, 1)
    return _Bars(root, max(least, sizes[most] + 1) if len(sizes) > most else least)


def title_of(report: MemReport) -> str:
    """Return a line that says what is shown."""
    return " ".join(f"alive at the end of {' '.join(report.command)}".split())


def _document(report: MemReport, flames: dict[str, _Bars]) -> str:
    title = title_of(report)
    lines: list[str] = []
    y = _HEAD
    for what, bars in flames.items():
        lines += _section(what, bars, y)
        y += _ROW + bars.rows * _ROW + _FOOT + _ROW
    notes = [*state_lines(report), *report.notes]
    lines += [_text(MARGIN, y + _ROW * at, note) for at, note in enumerate(notes)]
    height = y + _ROW * len(notes)
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


def _section(what: str, bars: _Bars, y: int) -> list[str]:
    """Return the lines of one tree from `y` on."""
    root = bars.root
    head = f"{what}: {root.count:,} of {size_text(root.bytes)}"
    if root.bytes:
        head += "; the wider a frame, the more bytes were made in it and below it"
    lines = [_text(MARGIN, y + 12, head)]
    lines.append('<g class="tree">')
    lines += [_bar(bar, root, what, y + _ROW) for bar in bars.bars]
    lines.append("</g>")
    if bars.merged:
        frames = plural(bars.merged, "frame")
        size = size_text(bars.merged_bytes)
        said = f"{frames} of {size} are too narrow to be seen: drawn together, in grey"
        lines.append(_text(MARGIN, y + _ROW + bars.rows * _ROW + 14, said))
    return lines


def _bar(bar: _Bar, root: FlameNode, what: str, top: int) -> str:
    node = bar.node
    x = MARGIN + ROOM * bar.before / root.bytes
    wide = ROOM * node.bytes / root.bytes
    y = top + bar.depth * _ROW
    about = "\n".join(map(_line, node.about.split("\n")))
    share = f"{size_text(node.bytes)} ({100 * node.bytes / root.bytes:.1f} %)"
    letters = int((wide - 6) / LETTER)
    text = ""
    if letters >= _LEAST_LETTERS:
        name = printable(node.label)
        shown = name if len(name) <= letters else f"{name[: letters - 1]}…"
        text = f'<text x="{x + 3:.1f}" y="{y + 13}">{escaped(shown)}</text>'
    return (
        f'<g class="f"><title>{about}\n{share} in {plural(node.count, what[:-1])}</title>'
        f'<rect x="{x:.1f}" y="{y}" width="{max(wide - 0.5, 0.5):.1f}" height="{_BAR}"'
        f' fill="{_colour(node.family)}"/>{text}</g>'
    )


def _colour(family: str) -> str:
    """Return a light colour: frames of one image, or one file, have the same."""
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

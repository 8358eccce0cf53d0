# SPDX-License-Identifier: Apache-2.0
"""A flame graph as an HTML page, in which frames can be widened and searched.

The page contains everything it shows, including its script: nothing is loaded.
"""

from __future__ import annotations

from soscope.report.flame import picture
from soscope.report.flame.tree import FlameGraph
from soscope.report.picture import escaped

# The page loads nothing, and has no links.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'"
)

_STYLE = """\
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
{_STYLE}</style>
</head>
<body>
<p>Click a frame to widen it. <button id="all">show all</button>
<label>mark <input id="name" placeholder="{escaped(names)}"></label>
<span id="marked"></span></p>
<p>Keys: <kbd>↑</kbd> <kbd>↓</kbd> <kbd>←</kbd> <kbd>→</kbd> go to the next frame,
<kbd>Enter</kbd> widens it, <kbd>Esc</kbd> shows all, <kbd>/</kbd> marks,
<kbd>n</kbd> <kbd>N</kbd> go to the next marked frame.</p>
<p id="said"></p>
{picture.document(title, graphs, notes)}<script>
const room = {picture.ROOM}, margin = {picture.MARGIN};
const letter = {picture.LETTER}, row = {picture.ROW};
{_SCRIPT}</script>
</body>
</html>
"""

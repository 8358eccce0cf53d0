# SPDX-License-Identifier: Apache-2.0
"""A flame graph as a page of its own, in which frames can be made wider and be looked for.

The page holds all it shows, its script included: nothing is loaded.
"""

from __future__ import annotations

from soscope.report.flame import picture
from soscope.report.flame.tree import FlameGraph
from soscope.report.picture import escaped

_STYLE = """\
body { margin: 12px; font: 13px sans-serif }
.f { cursor: pointer }
.f.marked rect { fill: #e040fb }
"""

# A frame that is clicked gets the whole width, with all above it; what is beside it goes away.
_SCRIPT = """\
const frames = [...document.querySelectorAll(".f")].map(g => {
  const rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
  const at = name => Number(rect.getAttribute(name));
  return {g, rect, title, label: title.split("\\n")[0], text: g.querySelector("text"),
          x: at("x") - margin, y: at("y"), width: at("width") + 0.5};
});
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
for (const f of frames) f.g.addEventListener("click", () => zoom(f));
document.getElementById("all").addEventListener("click", () => {
  for (const tree of document.querySelectorAll(".tree"))
    frames.filter(f => f.g === tree.firstElementChild).forEach(zoom);
});
document.getElementById("name").addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  for (const f of frames)
    f.g.classList.toggle("marked", wanted !== "" && f.title.toLowerCase().includes(wanted));
});
"""


def page(title: str, graphs: list[FlameGraph], notes: list[str], names: str) -> str:
    """Return the text of the page around the picture; `names` says what can be looked for."""
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{escaped(title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<p>Click a frame to widen it. <button id="all">show all</button>
<label>mark <input id="name" placeholder="{escaped(names)}"></label></p>
{picture.document(title, graphs, notes)}<script>
const room = {picture.ROOM}, margin = {picture.MARGIN}, letter = {picture.LETTER};
{_SCRIPT}</script>
</body>
</html>
"""

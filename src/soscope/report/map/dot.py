# SPDX-License-Identifier: Apache-2.0
"""The graph of a process's images in the language of Graphviz."""

from __future__ import annotations

from soscope.live.slots.bindings import UNBOUND
from soscope.report.mapprocess import COLOURS, Graph


def document(graph: Graph) -> str:
    """Return the text of the graph."""
    lines = [
        f"digraph {_quoted(graph.title)} {{",
        "  rankdir=TB;",
        '  node [shape=box, style="rounded,filled", fillcolor="#f4f6f8", fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=10];',
    ]
    for node in graph.nodes:
        more = ""
        if not node.is_image:
            more = ', style="filled", fillcolor="#fbe3e1"'
        elif node.is_main:
            more = ', fillcolor="#dfe9f5"'
        lines.append(f"  n{node.index} [label={_quoted(node.name)}{more}];")
    for edge in graph.edges:
        style = ", style=dashed" if edge.state == UNBOUND else ""
        lines.append(
            f"  n{edge.start.index} -> n{edge.end.index} [label={_quoted(str(edge.total))},"
            f' color="{COLOURS[edge.state]}", tooltip={_quoted(edge.label)}{style}];'
        )
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """Return a string of Graphviz, in which only quotes and backslashes are special."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'

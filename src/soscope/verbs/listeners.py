# SPDX-License-Identifier: Apache-2.0
"""Chooses the listener for a trace, live or read back. Only its module is imported."""

from __future__ import annotations

from soscope.instruments.trace.settings import MODE_TRACE, Listener
from soscope.report.output import Form, Output
from soscope.report.trace.display import Display, TableSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.choice import Choice


def make(
    mode: str,
    output: Output,
    display: Display,
    *,
    json: Form,
    injected: dict[str, object] | None = None,
    table: TableSettings | None = None,
    picture: Output | None = None,
) -> Listener:
    """Return the listener that shows a trace of this mode on `output`.

    `injected` are the rules that were applied to its calls, None if there were none. `table` are
    the settings for -c, and `picture` is the output for the picture of a graph.
    """
    if table is not None and table.tree and mode == MODE_TRACE:
        from soscope.report.trace.tree import TreeJsonListener, TreeTableListener

        if json:
            return TreeJsonListener(output, display, json)
        return TreeTableListener(output, table, display)
    if table is not None and table.graph:
        from soscope.report.trace.graph import GraphListener

        text = None if table.is_drawn_alone else output
        return GraphListener(text, table, display, form=json, picture=picture)
    if mode != MODE_TRACE:
        if json:
            from soscope.report.trace.table import SummaryJsonListener

            return SummaryJsonListener(output, table, display, json)
        from soscope.report.trace.table import SummaryListener

        return SummaryListener(output, table, display)
    if injected is not None:
        from soscope.report.trace.json import make as make_injected

        return make_injected(output, display, lambda: injected, form=json)
    if json.is_markdown:
        from soscope.report.trace.json import PageListener

        return PageListener(output, display, json)
    if json:
        from soscope.report.trace.json import JsonLinesListener

        return JsonLinesListener(output, display)
    if display.tree:
        from soscope.report.trace.tree import TreeListener

        return TreeListener(output, display)
    from soscope.report.trace.text import TextListener

    return TextListener(output, display)


def with_descriptors(
    choice: Choice | None, display: Display, *, live: bool, starts: bool = False
) -> Choice | None:
    """Return a choice that knows the files of descriptors, if -y or -P needs that.

    `live` means that the processes can be examined, and `starts` that a command will be started.
    """
    if not display.paths and (choice is None or not choice.paths):
        return choice
    from soscope.instruments.trace.choice import Choice
    from soscope.instruments.trace.descriptors import Descriptors, inherited, of_process

    choice = choice or Choice()
    choice.descriptors = Descriptors(of_process if live else None, inherited() if starts else None)
    if display.paths:
        display.descriptors = choice.descriptors
    return choice

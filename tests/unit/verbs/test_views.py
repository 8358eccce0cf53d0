# SPDX-License-Identifier: Apache-2.0
"""Trees and graphs: what they are made of, and what cannot be beside them."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs import report, trace


def test_a_graph_is_that_of_all_images_unless_somebody_says_which() -> None:
    assert trace.parse(["--graph", "prog"]).settings.from_ == ["all"]
    assert trace.parse(["--graph", "--from", "liba", "prog"]).settings.from_ == ["liba"]
    assert trace.parse(["--graph", "-e", "f", "prog"]).settings.from_ == []
    assert trace.parse(["-c", "prog"]).settings.from_ == []


def test_a_picture_is_made_without_text_and_beside_a_recording() -> None:
    alone = trace.parse(["--svg", "x.svg", "--record", "x.sosr", "prog"])
    assert alone.prints
    assert alone.settings.mode == "summary"
    assert alone.table.is_drawn_alone
    both = report.parse(["--svg", "x.svg", "--graph", "x.sosr"])
    assert both.asked.summary
    assert not both.table.is_drawn_alone


def test_a_tree_has_calls_one_by_one() -> None:
    calls = trace.parse(["--tree", "prog"])
    assert calls.display.tree
    assert calls.display.column == 0  # no equals sign has a place of its own
    assert not calls.table.tree
    sums = trace.parse(["--tree", "-c", "--top", "5", "prog"])
    assert (sums.settings.mode, sums.settings.wants_events) == ("trace", True)
    assert sums.table.tree
    assert not sums.tables_calls  # nothing has to be recorded for it
    assert report.parse(["--tree", "--top", "5", "x.sosr"]).table.tree
    assert trace.parse(["--tree", "-a", "60", "prog"]).display.column == 60
    assert trace.parse(["prog"]).display.column == 50


def test_a_page_of_calls_has_so_many_rows() -> None:
    words = ["--format", "md", "--top", "3"]
    traced, shown = trace.parse([*words, "prog"]), report.parse([*words, "run.sosr"])
    assert (traced.asked.json.most, traced.settings.mode) == (3, "trace")
    assert (shown.asked.json.most, shown.asked.summary) == (3, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tree --count-only prog", "--count-only"),
        ("--tree --json prog", "has its depth already"),
        ("--tree --format md prog", "a page has sums"),
        ("--tree -c --by caller prog", "rows of --tree -c are ways"),
        ("--graph -c prog", "not allowed with"),
        ("--graph --tree prog", "a view of its own"),
        ("--svg x.svg -C prog", "a view of its own"),
        ("--graph --sort calls prog", "pairs of images"),
        ("--graph --slower 1ms prog", "--slower: --graph adds up in the program"),
        ("--svg x.svg -Z prog", "-Z: --svg adds up in the program"),
        ("--graph -k prog", "a graph has none"),
        ("-k --format md prog", "a page of --format md has none"),
        ("-C --format md prog", "-C and --format md"),
        ("--json --format md prog", "cannot be combined"),
        ("--format xml prog", "xml"),
    ],
)
def test_what_does_not_go_together_is_refused(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        trace.parse(words.split())

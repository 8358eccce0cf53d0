# SPDX-License-Identifier: Apache-2.0
"""Pages of Markdown, read by a parser of Markdown: what is a string stays data."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from soscope.errors import UsageError
from soscope.model.call import printable
from soscope.report.markdown import MOST, page, quoted, size_text, steps, value_text
from soscope.report.output import Form
from soscope.verbs.options import JSON, Values, format_option, settle

READER = MarkdownIt("commonmark").enable("table")
NASTY = st.text(st.sampled_from("`|\\*_[]()<>#!&~-+=\n\r\t \"'ab1\u2028\x1b\udcff😀"), max_size=12)
PLAIN = {
    "heading_open", "heading_close", "bullet_list_open", "bullet_list_close", "list_item_open",
    "list_item_close", "paragraph_open", "paragraph_close", "inline", "text", "code_inline",
    "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close",
    "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close", "softbreak",
}  # fmt: skip


def tokens(text: str) -> list[Token]:
    """Return all tokens, those inside of lines, too."""
    return [token for block in READER.parse(text) for token in (block, *(block.children or ()))]


def spans(text: str) -> list[str]:
    return [token.content for token in tokens(text) if token.type == "code_inline"]


@settings(max_examples=300)
@given(NASTY)
def test_a_string_is_one_span_with_all_of_it(text: str) -> None:
    found = spans(f"- name: {quoted(text)}\n")
    assert [span.strip(" ") for span in found] == [printable(text).strip(" ")]


@settings(max_examples=100)
@given(st.lists(NASTY, min_size=2, max_size=4))
def test_nothing_of_a_document_becomes_markup(texts: list[str]) -> None:
    rows: list[object] = [{"symbol": text, "calls": 1} for text in texts]
    nested: list[object] = [{"name": text, "parts": rows} for text in texts]
    document: dict[str, object] = {
        "schema": "soscope/x/1", "command": texts, "path": texts[0], "rows": rows,
        "images": nested, "notes": texts, "words": texts,
    }  # fmt: skip
    text = page(document)
    assert {token.type for token in tokens(text)} <= PLAIN
    headings = [line for line in text.splitlines() if line.startswith("#")]
    count = len(texts)
    assert headings == [
        "# soscope x", f"## Rows ({count})", f"## Images ({count})", "## Notes",
    ]  # fmt: skip
    body = [token for token in tokens(text) if token.type == "td_open"]
    # a bar in a name makes no cell, and a column without anything in it is left out
    assert len(body) == count * (1 + any(texts))


def test_the_first_rows_are_shown_and_the_rest_is_added_up() -> None:
    rows: list[object] = [
        {"symbol": f"f{at}", "calls": 1000 - at, "self_ns": 1000, "note": None} for at in range(50)
    ]
    lines = page({"schema": "soscope/x/1", "rows": rows}).splitlines()
    assert lines[:4] == ["# soscope x", "", "## Rows (50)", ""]
    assert lines[4] == "| symbol | calls | self |"
    assert lines[6] == "| `f0` | 1,000 | 1.000 µs |"
    rest = sum(1000 - at for at in range(MOST, 50))
    assert lines[-1] == (
        f"- and 30 more (calls {rest:,}, self 30.000 µs); `--json` has all of them"
    )
    few = page({"schema": "soscope/x/1", "rows": rows}, 3).splitlines()
    assert sum(line.startswith("| `") for line in few) == 3


def test_rows_with_lists_are_items() -> None:
    document: dict[str, object] = {
        "schema": "soscope/called/1",
        "images": [
            {"name": "liba", "called": [{"symbol": "f", "calls": 3}, {"symbol": "g", "calls": 1}]},
            {"name": "libb", "called": [], "never": [{"symbol": "h"}, {"symbol": "i"}]},
        ],
    }
    assert page(document).splitlines()[4:] == [
        "- name `liba`",
        "  - called (2):",
        "    - symbol `f`; calls 3",
        "    - symbol `g`; calls 1",
        "- name `libb`",
        "  - never (2): `h`, `i`",
    ]


def test_next_commands_can_be_typed() -> None:
    document: dict[str, object] = {
        "schema": "soscope/trace-summary/1",
        "command": ["./my prog", "$(rm -r x)"],
        "rows": [{"symbol": "f;g", "errors": 2}],
    }
    assert steps(document) == [
        "soscope trace -T -e 'f;g' -- './my prog' '$(rm -r x)'",
        "soscope trace -Z -- './my prog' '$(rm -r x)'",
        "soscope trace --graph -- './my prog' '$(rm -r x)'",
    ]
    document["rows"] = [{"symbol": "f\x1b"}]
    assert steps(document) == ["soscope trace --graph -- './my prog' '$(rm -r x)'"]
    document["command"] = ["sh", "-c", "two\nlines"]
    assert steps(document) == []
    assert steps({"schema": "soscope/unheard-of/1"}) == []


def test_what_was_injected_leads_to_a_sweep() -> None:
    rows: list[object] = [{"function": "open", "errors": 2}, {"function": "f", "errors": None}]
    document: dict[str, object] = {
        "schema": "soscope/inject/1", "command": ["my prog"], "functions": rows,
    }  # fmt: skip
    assert steps(document) == ["soscope inject --sweep open -- 'my prog'"]
    sites: list[object] = [{"kind": "crash", "repeat": "again"}, {"kind": "none", "repeat": "no"}]
    assert steps({"schema": "soscope/inject-sweep/1", "sites": sites}) == ["again"]
    assert steps({"schema": "soscope/inject-sweep/1", "sites": sites[1:]}) == []


def test_what_is_recorded_of_memory_can_be_looked_at_further() -> None:
    document: dict[str, object] = {"schema": "soscope/mem-report/1", "command": ["my prog"]}
    assert steps(document) == ["soscope mem run -o mem.sosr -- 'my prog'"]
    assert steps({**document, "native": [{}]}, "my rec")[:2] == [
        "soscope mem flame -o mem.svg 'my rec'",
        "soscope mem report --peak 'my rec'",
    ]
    assert steps({**document, "survivors": [{}]}, "r")[1:] == ["soscope mem report --by type r"]
    running: dict[str, object] = {
        **document, "pid": 7, "state": "complete", "exit": {"status": None, "signal": None},
    }  # fmt: skip
    others = ["soscope mem live -p 7", "soscope mem where -p 7"]
    assert steps(running) == others
    rows: list[object] = [{"file": None, "line": 0}, {"file": "a b.py", "line": 3}]
    assert steps({**running, "survivors": rows}) == ["soscope mem refs -p 7 'a b.py:3'", *others]
    assert steps({**running, "exit": {"status": 0, "signal": None}}) == steps(document)
    where: dict[str, object] = {"schema": "soscope/mem-where/1", "pid": 7, "trim": 0}
    assert steps({**where, "verdict": "leak"}) == ["soscope mem live -p 7"]
    assert steps({**where, "verdict": "unknown", "trim": 1})[:2] == [
        "soscope mem where --duration 60s -p 7",
        "soscope mem trim -p 7",
    ]
    attached: dict[str, object] = {"schema": "soscope/mem-attach/1", "pid": 7}
    assert steps(attached) == ["soscope mem snapshot -p 7"]
    assert steps({**attached, "recording": "a b"}) == ["soscope mem report 'a b'"]


def test_stacks_are_lines_and_blocks_stand_by_size() -> None:
    frames: list[object] = [
        {"image": "liba", "symbol": "f", "offset": 31, "file": None, "line": None},
        {"image": None, "symbol": "g", "offset": None, "file": "a.py", "line": 7},
        {"image": "liba", "symbol": None, "offset": 4096, "file": None, "line": None},
    ]
    rows: list[object] = [
        {"api": "malloc", "count": 9, "bytes": 9, "frames": frames * 4},
        {"api": "calloc", "count": 1, "bytes": 100, "frames": frames},
    ]
    lines = page({"schema": "soscope/mem-report/1", "native": rows}).splitlines()
    assert lines[2:] == [
        "## Native, most bytes first (2)",
        "",
        "- api `calloc`; count 1; bytes 100 bytes",
        "  - frames (3):",
        "    - `liba!f+0x1f`",
        "    - `g (a.py:7)`",
        "    - `liba+0x1000`",
        "- api `malloc`; count 9; bytes 9 bytes",
        "  - frames (12):",
        *["    - `liba!f+0x1f`", "    - `g (a.py:7)`", "    - `liba+0x1000`"] * 2,
        "    - `liba!f+0x1f`",
        "    - `g (a.py:7)`",
        "    - and 4 more",
    ]


def test_what_is_recorded_of_calls_can_be_looked_at_further() -> None:
    document: dict[str, object] = {"schema": "soscope/prof-report/1", "command": ["my prog"]}
    assert steps(document) == ["soscope prof run -o prof.sosr -- 'my prog'"]
    how: dict[str, object] = {"mode": "time", "boundary": "count", "sample_ns": 9_870_000}
    assert steps(document | how) == [
        "soscope prof run --mode time --boundary count --sample 100 -o prof.sosr -- 'my prog'"
    ]
    assert steps(document, "r") == []
    assert steps({**document, "functions": [{"symbol": "f(int)"}]}, "my rec") == [
        "soscope prof report --callers 'f(int)' 'my rec'",
        "soscope prof report --tree 'my rec'",
        "soscope prof flame -o prof.html 'my rec'",
    ]
    assert "--callers go r" in steps({**document, "sampled": [{"symbol": "go"}]}, "r")[0]


def test_stacks_of_samples_are_lines_too() -> None:
    frames: list[dict[str, object]] = [
        {"image": "liba", "symbol": "f", "file": None, "line": None},
        {"image": None, "symbol": "g", "file": "a.py", "line": 7},
        {"image": "liba", "symbol": None, "file": None, "line": None},
    ]
    rows = [{"thread": 7, "frames": frames, "weight": 3}, {"thread": 7, "frames": [], "weight": 1}]
    lines = page({"schema": "soscope/prof-report/1", "samples": rows}).splitlines()
    assert lines[2:] == [
        "## Sampled stacks, the most first (2)",
        "",
        "- thread 7; weight 3",
        "  - frames (3):",
        "    - `liba!f`",
        "    - `g (a.py:7)`",
        "    - `liba`",
        "- thread 7; weight 1",
    ]


def test_numbers_have_units() -> None:
    assert value_text("peak_time_ns", 1_700_000_000_123_456_789) == "2023-11-14 22:13:20.123 UTC"
    assert value_text("took_ns", 1_500_000) == "1.500 ms"
    assert size_text(1536) == "1,536 bytes (1.5 KiB)"
    assert value_text("bytes_a", 1536) == value_text("given_back", 1536) == size_text(1536)
    assert value_text("bytes_per_minute", 1536.2) == size_text(1536)
    assert value_text("count_per_minute", 48816.12) == "48,816.1"
    assert value_text("count_a", 4321) == value_text("live", 4321) == "4,321"
    assert value_text("pid", 4321) == "4321"
    lines = page({"schema": "soscope/x/1", "longest_stop_ns": 2000, "pid": 12345, "bytes": 7})
    assert lines.splitlines()[2:] == [
        "- longest stop: 2.000 µs",
        "- pid: 12345",
        "- bytes: 7 bytes",
    ]


@pytest.mark.parametrize(
    ("json", "form", "name"),
    [(False, None, "text"), (True, None, "json"), (True, "json", "json"), (False, "md", "md")],
)
def test_json_is_short_for_a_form(json: bool, form: str | None, name: str) -> None:
    values = Values([JSON, format_option("x")])
    values.json, values.form = json, form
    settle(values)
    assert values.json.name == name
    assert bool(values.json) == (name != "text")


def test_two_forms_are_refused() -> None:
    values = Values([JSON, format_option("x")])
    values.json, values.form = True, "md"
    with pytest.raises(UsageError, match="cannot be combined"):
        settle(values)


def test_what_is_no_page_stays_as_it_is() -> None:
    assert Form("json").shaped('{"schema": 1}') == '{"schema": 1}'
    assert Form("text").shaped("text") == "text"

# SPDX-License-Identifier: Apache-2.0
"""`--format`: every verb that reports something has it, and the page says of the others why not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from soscope.errors import UsageError
from soscope.report.output import FORMS
from soscope.verbs.main import VERBS, Invocation
from soscope.verbs.mem import report, run

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "markdown.md"
WITHOUT = {"run", "export", "mem flame", "prof flame"}  # they print nothing but notes


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_every_form(verb: str) -> None:
    options = importlib.import_module(f"soscope.verbs.{verb.replace(' ', '.').replace('-', '_')}")
    choices = [row.choices for row in options.VERB.options if row.flags == ("--format",)]
    if verb in WITHOUT:
        assert all("text" not in words for words in choices)
        assert f"`soscope {verb}`" in PAGE.read_text()
    else:
        assert [words[:3] for words in choices] == [FORMS]
        assert any(row.flags == ("--json",) for row in options.VERB.options)


def test_a_page_has_so_many_rows_and_says_what_the_others_are() -> None:
    page, _ = report.VERB.read(["--format", "md", "--limit", "3", "run.sosr"])
    assert (page.json.most, page.rows) == (3, None)
    document, _ = report.VERB.read(["--json", "--limit", "3", "run.sosr"])
    assert (document.json.most, document.rows) == (None, 3)


def test_what_is_recorded_is_not_shown() -> None:
    assert run.VERB.read(["--format", "md", "true"])[0].json.is_markdown
    assert not run.VERB.read(["-o", "run.sosr", "--format", "text", "true"])[0].json
    with pytest.raises(UsageError, match="with -o nothing is shown") as refused:
        run.run(Invocation(["-o", "run.sosr", "--format", "md", "true"], debug=False))
    assert refused.value.hint == "soscope mem report --format md REC shows it"

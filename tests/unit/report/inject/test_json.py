# SPDX-License-Identifier: Apache-2.0
"""What a sweep has found, as a document and as a page."""

from __future__ import annotations

import json

from soscope.instruments.inject.sweep.result import CommandEnd, Site, SiteResult, SweepResult
from soscope.report.inject import document
from soscope.report.output import JSON, MARKDOWN, Form


def test_a_page_has_the_worst_first_and_a_document_the_places_in_order() -> None:
    result = SweepResult(["prog"], ["malloc"], follow=False)
    result.baseline = CommandEnd(0, None)
    result.results = [
        SiteResult(Site("malloc", "prog", at), kind, CommandEnd(0, None), [])
        for at, kind in enumerate(["none", "error", "crash", "moved", "hang", "wrong"])
    ]
    kinds = [site["kind"] for site in json.loads(document(result, Form(JSON)))["sites"]]
    assert kinds == ["none", "error", "crash", "moved", "hang", "wrong"]
    page = document(result, Form(MARKDOWN))
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `malloc`")]
    assert [row[4].strip(" `") for row in rows] == [
        "crash", "hang", "wrong", "moved", "error", "none",
    ]  # fmt: skip
    assert page.splitlines()[-1] == (
        "- `soscope inject -e fault=malloc:site=prog+0x2:when=1 -- prog`"
    )

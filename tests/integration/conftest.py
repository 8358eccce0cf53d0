# SPDX-License-Identifier: Apache-2.0
"""What several files of tests here ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from soscope.verbs.main import main
from tests.support.files.explaining import Explain
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.explain import EXPLAIN


@pytest.fixture
def explain(capfd: pytest.CaptureFixture[str]) -> Explain:
    """Give the document that `soscope explain --json` prints; its form is checked."""

    def said(*words: str | Path, status: int = 0) -> Any:
        assert main(["explain", "--json", *map(str, words)]) == status
        document = json.loads(capfd.readouterr().out)
        assert wrong_members(document, EXPLAIN) == []
        return document

    return said

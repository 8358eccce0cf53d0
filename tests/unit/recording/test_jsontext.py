# SPDX-License-Identifier: Apache-2.0
"""The JSON that is written is what `json` writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soscope.recording.blocks import compact

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.recursive(PLAIN, lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
@pytest.mark.slow
def test_it_is_what_json_writes(said: object) -> None:
    assert compact(said) == json.dumps(said, separators=(",", ":")).encode()


def test_names_that_are_no_text() -> None:
    assert json.loads(compact({"path": "a\udcff", "rows": [(1, None)]})) == {
        "path": "a\udcff",
        "rows": [[1, None]],
    }


def test_what_json_does_not_know() -> None:
    with pytest.raises(TypeError):
        compact({1, 2})

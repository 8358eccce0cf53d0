# SPDX-License-Identifier: Apache-2.0
"""The small JSON writer, against the standard one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soscope.report.output import dumps
from tests.support.processes.run import imported

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_the_standard_module_writes(value: object) -> None:
    assert dumps(value) == json.dumps(value)


def test_what_is_no_number_is_a_string() -> None:
    values = [float("nan"), float("inf"), -float("inf"), 1e308, -0.0]
    assert json.loads(dumps(values)) == ["nan", "inf", "-inf", 1e308, -0.0]


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, {1, 2}, [object()]])
def test_what_json_has_no_word_for(value: object) -> None:
    with pytest.raises(TypeError):
        dumps(value)


def test_nothing_heavy_comes_with_it() -> None:
    found = imported("from soscope.report.output import dumps; dumps({'a': ['b', 1.5]})")
    assert "soscope.report.output" in found
    assert not {"re", "enum", "json", "json.decoder"} & found

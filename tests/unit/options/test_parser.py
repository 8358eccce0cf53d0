# SPDX-License-Identifier: Apache-2.0
"""What is said of an option that there is not."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.options.parser import VerbParser


def test_an_option_that_is_typed_wrong_is_named_with_the_one_that_is_like_it() -> None:
    parser = VerbParser("trace", [], usage="", short="", description="", epilog="")
    parser.add_argument("--slower")
    with pytest.raises(UsageError, match=r"there is no --slowr$") as caught:
        parser.parse_args(["--slowr=1s"])
    assert caught.value.hint == "did you mean --slower?"
    with pytest.raises(UsageError, match="unrecognized arguments: --xyz") as caught:
        parser.parse_args(["--xyz"])
    assert caught.value.hint == "soscope trace --help lists the options"

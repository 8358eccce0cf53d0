# SPDX-License-Identifier: Apache-2.0
"""Objects of Ruby and names of their classes: those that are there, wherever they move."""

from __future__ import annotations

import pytest

from tests.agent import hosted


@pytest.mark.long
def test_no_class_is_asked_for_that_is_gone() -> None:
    hosted.check("rubyobjects")

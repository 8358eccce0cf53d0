# SPDX-License-Identifier: Apache-2.0
"""The side table: each block has its own word, however near and far others are."""

from __future__ import annotations

import pytest

from tests.agent import hosted


@pytest.mark.long
def test_each_block_has_its_own_word() -> None:
    hosted.check("side")

# SPDX-License-Identifier: Apache-2.0
"""The side table: each block has its own word, however near and far others are."""

from __future__ import annotations

from tests.agent import hosted


def test_each_block_has_its_own_word() -> None:
    hosted.check("side")

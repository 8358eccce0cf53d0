# SPDX-License-Identifier: Apache-2.0
"""methods.c: entries of method tables are found, and what only nearly looks like one is not."""

from __future__ import annotations

from tests.agent import hosted


def test_nothing_but_entries_is_found() -> None:
    hosted.check("methodtables")

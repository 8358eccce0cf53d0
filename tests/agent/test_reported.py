# SPDX-License-Identifier: Apache-2.0
"""Calls of code that reports them: open ones, on any stack, and room for more at entries.

The assembly is seen in tests/integration.
"""

from __future__ import annotations

from tests.agent import hosted


def test_it_knows_who_is_inside_whom() -> None:
    hosted.check("reported")


def test_each_call_is_one_unit_of_the_log() -> None:
    hosted.check("reportedlog")


def test_it_knows_room_for_a_call() -> None:
    hosted.check("entries")


def test_each_thread_has_a_table_of_its_own() -> None:
    hosted.check("tables")

# SPDX-License-Identifier: Apache-2.0
"""Objects of Python that are announced and freed: each has its word as long as it lives."""

from __future__ import annotations

from tests.agent import hosted


def test_an_object_is_known_from_its_announcement_to_its_end() -> None:
    hosted.check("pythonobjects")


def test_only_a_function_that_gets_the_object_is_taken_for_its_announcement() -> None:
    hosted.check("firstcall")

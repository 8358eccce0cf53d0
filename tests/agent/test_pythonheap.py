# SPDX-License-Identifier: Apache-2.0
"""Looks at objects of Python: those that are alive, and nothing of those that are gone."""

from __future__ import annotations

from tests.agent import hosted


def test_objects_are_told_and_what_is_gone_is_not_read() -> None:
    hosted.check("pythonheap")

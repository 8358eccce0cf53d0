# SPDX-License-Identifier: Apache-2.0
"""Frames of Ruby in stacks: read where they are, and from no memory that is gone."""

from __future__ import annotations

from tests.agent import hosted


def test_a_walk_of_frames_of_ruby_stays_where_they_are() -> None:
    hosted.check("rubystack")


def test_frames_of_a_thread_without_the_lock_are_right_or_unknown() -> None:
    hosted.check("rubyreleased")

# SPDX-License-Identifier: Apache-2.0
"""Frames of Ruby in stacks: read where they are, and from no memory that is gone."""

from __future__ import annotations

import pytest

from tests.agent import hosted


def test_a_walk_of_frames_of_ruby_stays_where_they_are() -> None:
    hosted.check("rubystack")


@pytest.mark.soak  # in one of 50 runs a frame is not known that could be: see STUMBLED.md
def test_frames_of_a_thread_without_the_lock_are_right_or_unknown() -> None:
    hosted.check("rubyreleased")

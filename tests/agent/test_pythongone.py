# SPDX-License-Identifier: Apache-2.0
"""Frames of a Python that may end meanwhile: no memory is read that is gone."""

from __future__ import annotations

from tests.agent import hosted


def test_what_an_ended_python_has_given_away_is_not_read() -> None:
    hosted.check("pythongone")

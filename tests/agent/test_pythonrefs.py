# SPDX-License-Identifier: Apache-2.0
"""What objects of Python refer to: all of it, and nothing behind its end."""

from __future__ import annotations

from tests.agent import hosted


def test_references_are_told_up_to_their_end() -> None:
    hosted.check("pythonrefs")

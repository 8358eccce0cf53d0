# SPDX-License-Identifier: Apache-2.0
"""Origins: found as long as they are told of, in threads and in forked children."""

from __future__ import annotations

from tests.agent import hosted


def test_origins_are_found_again() -> None:
    hosted.check("origin")

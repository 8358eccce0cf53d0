# SPDX-License-Identifier: Apache-2.0
"""Open calls of code that reports them, on any stack; the assembly is seen in tests/integration."""

from __future__ import annotations

from tests.agent import hosted


def test_it_knows_who_is_inside_whom() -> None:
    hosted.check("reported")

# SPDX-License-Identifier: Apache-2.0
"""The Rubies of this machine: the distribution's, and those of SOSCOPE_RUBIES."""

from __future__ import annotations

import os

from tests.support.machines.tools import need


def rubies() -> list[str]:
    """Return what runs each; SOSCOPE_RUBIES names more, with colons between."""
    return ["ruby", *[path for path in os.environ.get("SOSCOPE_RUBIES", "").split(":") if path]]


def found(ruby: str) -> str:
    """Return the path of one, or skip the test."""
    return ruby if "/" in ruby else need(ruby)

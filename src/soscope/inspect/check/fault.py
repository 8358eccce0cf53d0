# SPDX-License-Identifier: Apache-2.0
"""What `soscope check` finds in a file."""

from __future__ import annotations

from typing import NamedTuple

FAULT = "fault"  # what the file says of itself does not fit together, or harms whoever loads it
REMARK = "remark"  # it could be harder to attack


class Fault(NamedTuple):
    """One thing that is wrong with a file.

    `slug` stays the same, `message` is for people. `vaddr` and `symbol` are those of the stub or
    slot, None where it is about the whole file.
    """

    slug: str
    severity: str
    message: str
    vaddr: int | None = None
    symbol: str | None = None

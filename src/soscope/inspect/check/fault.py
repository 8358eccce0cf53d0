# SPDX-License-Identifier: Apache-2.0
"""A fault that `soscope check` finds in a file."""

from __future__ import annotations

from typing import NamedTuple

FAULT = "fault"  # the file contradicts itself, or harms programs that load it
REMARK = "remark"  # it could be harder to attack


class Fault(NamedTuple):
    """One fault or remark about a file.

    `slug` is stable, `message` is for users. `vaddr` and `symbol` are those of the stub or slot,
    None if the whole file is meant.
    """

    slug: str
    severity: str
    message: str
    vaddr: int | None = None
    symbol: str | None = None

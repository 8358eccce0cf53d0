# SPDX-License-Identifier: Apache-2.0
"""Instructions that call or jump through slots, whatever the machine."""

from __future__ import annotations

from typing import NamedTuple


class Through(NamedTuple):
    """One instruction at `vaddr`, and the slot that it goes through, both as its image has them."""

    vaddr: int
    slot: int
    is_call: bool

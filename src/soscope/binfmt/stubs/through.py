# SPDX-License-Identifier: Apache-2.0
"""Instructions that call or jump through slots, whatever the machine."""

from __future__ import annotations

from typing import NamedTuple


class Through(NamedTuple):
    """One instruction at `vaddr`, and the slot that it goes through, both as its image has them.

    `register` is the one that was loaded with what the slot holds, -1: the instruction reads it, or
    a stub begins there.
    """

    vaddr: int
    slot: int
    is_call: bool
    register: int = -1

# SPDX-License-Identifier: Apache-2.0
"""The record for an instruction that calls or jumps through a slot, on any machine."""

from __future__ import annotations

from typing import NamedTuple


class Through(NamedTuple):
    """One instruction at `vaddr`, and the slot that it goes through; both are link-time addresses.

    `register` is the register into which the slot was loaded, -1 if the instruction reads the
    slot itself or is the start of a stub.
    """

    vaddr: int
    slot: int
    is_call: bool
    register: int = -1

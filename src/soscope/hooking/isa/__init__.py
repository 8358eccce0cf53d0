# SPDX-License-Identifier: Apache-2.0
"""The machine code of hooked slots. Only this module chooses the processor."""

from soscope.hooking.isa import x86_64 as code

__all__ = ["code"]

# SPDX-License-Identifier: Apache-2.0
"""The machine code behind hooked slots. Here alone its processor is chosen."""

from soscope.hooking.isa import x86_64 as code

__all__ = ["code"]

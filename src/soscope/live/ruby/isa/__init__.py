# SPDX-License-Identifier: Apache-2.0
"""Find the thread-local variable that machine code uses, for each sampled machine."""

from soscope.live.ruby.isa import x86_64 as arch

__all__ = ["arch"]

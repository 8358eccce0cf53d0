# SPDX-License-Identifier: Apache-2.0
"""How code of the machine that is sampled finds a variable that each thread has for itself."""

from soscope.live.ruby.isa import x86_64 as arch

__all__ = ["arch"]

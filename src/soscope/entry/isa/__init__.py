# SPDX-License-Identifier: Apache-2.0
"""Registers, instructions and system calls of the machine that the agent is for.

Here alone it is chosen. Everybody else imports `arch` and takes what all have under one name.
"""

from soscope.entry.isa import x86_64 as arch

__all__ = ["arch"]

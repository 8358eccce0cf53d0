# SPDX-License-Identifier: Apache-2.0
"""Registers, instructions and system calls of the agent's machine.

Only this module chooses the machine. All others import `arch` and use the names that all machines
share.
"""

from soscope.entry.isa import x86_64 as arch

__all__ = ["arch"]

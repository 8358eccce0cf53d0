# SPDX-License-Identifier: Apache-2.0
"""How a program ended."""

from __future__ import annotations

import os


class ExitStatus:
    """An exit status, or the number of the signal that killed; the other one is None."""

    __slots__ = ("signal", "status")

    def __init__(self, status: int | None, signal: int | None) -> None:
        self.status = status
        self.signal = signal

    @classmethod
    def of_wait(cls, status: int) -> ExitStatus:
        """Make it from a wait status of a process that ended."""
        if os.WIFSIGNALED(status):
            return cls(None, os.WTERMSIG(status))
        return cls(os.WEXITSTATUS(status), None)

    def __repr__(self) -> str:
        """Show both."""
        return f"ExitStatus(status={self.status}, signal={self.signal})"

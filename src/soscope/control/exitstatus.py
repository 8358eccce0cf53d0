# SPDX-License-Identifier: Apache-2.0
"""The exit status or the fatal signal of a program."""

from __future__ import annotations

import os


class ExitStatus:
    """An exit status, or the number of the signal that killed the process. One of them is None."""

    __slots__ = ("signal", "status")

    def __init__(self, status: int | None, signal: int | None) -> None:
        self.status = status
        self.signal = signal

    @classmethod
    def of_wait(cls, status: int) -> ExitStatus:
        """Make it from the wait status of a process that has ended."""
        if os.WIFSIGNALED(status):
            return cls(None, os.WTERMSIG(status))
        return cls(os.WEXITSTATUS(status), None)

    def __repr__(self) -> str:
        """Show both fields."""
        return f"ExitStatus(status={self.status}, signal={self.signal})"

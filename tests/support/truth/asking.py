# SPDX-License-Identifier: Apache-2.0
"""Who wants to know of every question whose true answer a process has told itself.

Tests call `asked` for each; nothing listens but when a table of answers is made
(tests/soak/answers.py).
"""

from __future__ import annotations

from collections.abc import Callable

# process, query, how it is asked, the truth (0: there is no one address), what soscope says
Listener = Callable[[int, str, dict[str, object], int, int], None]

listeners: list[Listener] = []


def asked(pid: int, query: str, truth: int, said: int | None, **how: object) -> None:
    """Tell the listeners of one question. The process still is as it was when it was asked."""
    for listener in listeners:
        listener(pid, query, how, truth, said or 0)

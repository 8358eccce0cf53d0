# SPDX-License-Identifier: Apache-2.0
"""Messages that are printed while a target runs."""

from __future__ import annotations

import os

from soscope.cli.main import note

_STDERR = 2
_AT_ONCE = 4096  # bytes that a pipe takes at once if it is writable: PIPE_BUF


class Early:
    """Prints messages at once, or keeps them if printing would wait.

    The target has to be attended to meanwhile.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []

    def __call__(self, text: str) -> None:
        """Print `text` now, if that is possible without waiting."""
        if len(os.fsencode(text)) < _AT_ONCE // 2 and _takes_more(_STDERR):
            note(text)
        else:
            self._kept.append(text)

    def finish(self) -> None:
        """Print the messages that were kept."""
        for text in self._kept:
            note(text)


def _takes_more(fd: int) -> bool:
    """Return whether a small write would not wait."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))

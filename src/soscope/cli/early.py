# SPDX-License-Identifier: Apache-2.0
"""What is said while a target runs."""

from __future__ import annotations

import os

from soscope.cli.main import note

_STDERR = 2
_AT_ONCE = 4096  # bytes that a pipe takes at once if it takes any: PIPE_BUF


class Early:
    """Says what cannot wait for the end, or keeps it where nobody takes it at this moment.

    The target has to be looked after meanwhile.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []

    def __call__(self, text: str) -> None:
        """Say `text` now, if that is possible without waiting."""
        if len(os.fsencode(text)) < _AT_ONCE // 2 and _takes_more(_STDERR):
            note(text)
        else:
            self._kept.append(text)

    def finish(self) -> None:
        """Say what has been kept."""
        for text in self._kept:
            note(text)


def _takes_more(fd: int) -> bool:
    """Return whether writing a little does not wait."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))

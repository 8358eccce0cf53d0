# SPDX-License-Identifier: Apache-2.0
"""Lines that have to wait for a line before them.

A line is put into order when its call begins, and has a text when the call ends. Finished
lines that stand behind an unfinished one are taken together; above a limit they go to a
file without a name. What stays in memory is one piece for each call that is open, and the
lines of the last moment.
"""

from __future__ import annotations

import os
import tempfile

from soscope.model.call import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PIECES = 4096  # lines that may wait one by one
MOST_TEXT = 8 << 20  # characters that may wait in memory
_LONG = 1 << 20  # a piece of text that is not joined with others any more


class _OutputPiece:
    """A part of the output: text, a stretch of the file, or nothing yet (an open call)."""

    __slots__ = ("offset", "size", "text")

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.offset = -1
        self.size = 0

    @property
    def is_open(self) -> bool:
        return self.text is None and self.offset < 0


class Backlog:
    """Hands lines on to `write`, in their order, as soon as nothing earlier is open."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        most_pieces: int = MOST_PIECES,
        most_text: int = MOST_TEXT,
    ) -> None:
        self._write = write
        self._most_pieces = most_pieces
        self._most_text = most_text
        self._compact_at = most_pieces
        self._pieces: list[_OutputPiece] = []
        self._open: dict[Entry, _OutputPiece] = {}  # in the order in which they began
        self._text = 0  # characters that wait in memory
        self._file = -1
        self._file_end = 0
        self._file_works = True

    def add(self, line: str) -> None:
        """Add a line that is finished."""
        self._pieces.append(_OutputPiece(line))
        self._text += len(line)

    def open(self, entry: Entry) -> None:
        """Keep the place of a call that has begun."""
        piece = _OutputPiece(None)
        self._pieces.append(piece)
        self._open[entry] = piece

    def is_open(self, entry: Entry) -> bool:
        """Return whether a place is kept for a call."""
        return entry in self._open

    def close(self, entry: Entry, line: str) -> None:
        """Give a call that is open its line."""
        self._open.pop(entry).text = line
        self._text += len(line)

    def still_open(self) -> list[Entry]:
        """Return the calls that have not been closed, in order."""
        return list(self._open)

    def write(self, *, everything: bool = False) -> None:
        """Hand on what nothing holds back; `everything`: open calls have no line."""
        pieces = self._pieces
        ready: list[str] = []
        done = 0
        for piece in pieces:
            if piece.is_open and not everything:
                break
            done += 1
            if piece.text:
                ready.append(piece.text)
                self._text -= len(piece.text)
            elif piece.size:
                self._hand_on(ready)
                self._copy(piece)
        self._hand_on(ready)
        if done:
            del pieces[:done]
        if not pieces and self._file_end:
            os.ftruncate(self._file, 0)
            self._file_end = 0
        if everything:
            self._open.clear()
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
        elif len(pieces) > self._compact_at or (self._text > self._most_text and self._file_works):
            self._compact()

    def _hand_on(self, ready: list[str]) -> None:
        if ready:
            self._write("".join(ready))
            ready.clear()

    def _compact(self) -> None:
        """Take finished neighbours together, and move long text to the file."""
        kept: list[_OutputPiece] = []
        run: list[str] = []

        def keep(text: str) -> None:
            if self._text > self._most_text and self._spill(text, kept):
                return
            kept.append(_OutputPiece(text))

        def finish() -> None:
            if run:
                keep("".join(run))
                run.clear()

        for piece in self._pieces:
            text = piece.text
            if text is None:
                finish()
                kept.append(piece)
            elif len(text) > _LONG:
                finish()
                keep(text)
            else:
                run.append(text)
        finish()
        self._pieces = kept
        # As many calls may be open: the next look is worth it when that has doubled.
        self._compact_at = max(self._most_pieces, 2 * len(kept))

    def _spill(self, text: str, kept: list[_OutputPiece]) -> bool:
        """Move text to the file, as a piece behind those that are kept; False if it cannot."""
        if not self._file_works:
            return False
        data = text.encode("utf-8", "surrogateescape")
        try:
            if self._file < 0:
                with tempfile.TemporaryFile(prefix="soscope-") as file:
                    self._file = os.dup(file.fileno())
            written = 0
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self._file_end + written)
        except OSError:
            self._file_works = False  # then it waits in memory
            return False
        self._text -= len(text)
        before = kept[-1] if kept else None
        if before is not None and before.size and before.offset + before.size == self._file_end:
            before.size += len(data)
        else:
            piece = _OutputPiece(None)
            piece.offset, piece.size = self._file_end, len(data)
            kept.append(piece)
        self._file_end += len(data)
        return True

    def _copy(self, piece: _OutputPiece) -> None:
        """Hand on a stretch of the file."""
        at, end = piece.offset, piece.offset + piece.size
        rest = b""
        while at < end:
            data = os.pread(self._file, min(1 << 20, end - at), at)
            if not data:
                break
            at += len(data)
            head, newline, tail = data.rpartition(b"\n")  # no character is cut in two
            if newline:
                self._write((rest + head + newline).decode("utf-8", "surrogateescape"))
                rest = tail
            else:
                rest += data
        if rest:
            self._write(rest.decode("utf-8", "surrogateescape"))

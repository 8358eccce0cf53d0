# SPDX-License-Identifier: Apache-2.0
"""Lines of output that wait for an earlier line.

A line gets its place when its call begins, and its text when the call ends. Finished lines behind
an unfinished one are joined. Above a limit they are moved to a file without a name. So memory
holds one piece for each open call, and the lines of the last moment.
"""

from __future__ import annotations

import os
import tempfile

from soscope.model.call import Entry
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PIECES = 4096  # lines that may wait one by one
MOST_TEXT = 8 << 20  # characters that may wait in memory
_LONG = 1 << 20  # size from which on a piece of text is not joined with others


class _OutputPiece(Record):
    """A part of the output: text, a range of the file, or nothing yet (an open call)."""

    text: str | None
    offset: int = -1
    size: int = 0

    @property
    def is_open(self) -> bool:
        return self.text is None and self.offset < 0


class Backlog:
    """Passes lines to `write` in their order, as soon as no earlier call is open."""

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
        self._open: dict[Entry, _OutputPiece] = {}  # in the order in which the calls began
        self._text = 0  # characters that wait in memory
        self._file = -1
        self._file_end = 0
        self._file_works = True

    def add(self, line: str) -> None:
        """Add a finished line."""
        self._pieces.append(_OutputPiece(line))
        self._text += len(line)

    def open(self, entry: Entry) -> None:
        """Reserve the place of a call that has begun."""
        piece = _OutputPiece(None)
        self._pieces.append(piece)
        self._open[entry] = piece

    def is_open(self, entry: Entry) -> bool:
        """Return whether a place is reserved for a call."""
        return entry in self._open

    def close(self, entry: Entry, line: str) -> None:
        """Give an open call its line."""
        self._open.pop(entry).text = line
        self._text += len(line)

    def still_open(self) -> list[Entry]:
        """Return the calls that have not been closed, in order."""
        return list(self._open)

    def write(self, *, everything: bool = False) -> None:
        """Write all lines before the first open call, or with `everything` all finished lines."""
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
        """Join finished neighbours, and move long text to the file."""
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
        # So many calls may really be open, so compact again only when that number has doubled.
        self._compact_at = max(self._most_pieces, 2 * len(kept))

    def _spill(self, text: str, kept: list[_OutputPiece]) -> bool:
        """Move text to the file, as a piece behind those in `kept`. Return False if it cannot."""
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
            self._file_works = False  # then the text waits in memory
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
        """Write a range of the file to the output."""
        at, end = piece.offset, piece.offset + piece.size
        rest = b""
        while at < end:
            data = os.pread(self._file, min(1 << 20, end - at), at)
            if not data:
                break
            at += len(data)
            head, newline, tail = data.rpartition(b"\n")  # so that no character is cut in two
            if newline:
                self._write((rest + head + newline).decode("utf-8", "surrogateescape"))
                rest = tail
            else:
                rest += data
        if rest:
            self._write(rest.decode("utf-8", "surrogateescape"))

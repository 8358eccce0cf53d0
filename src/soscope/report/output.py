# SPDX-License-Identifier: Apache-2.0
"""Write output to a descriptor that may fail, in the chosen format."""

from __future__ import annotations

import errno
import os
import stat
import time

from soscope.errors import SoscopeError
from soscope.instruments.trace.listener import Destination
from soscope.recording.userfile import above_stderr, open_to_write

try:  # 0.2 ms; json takes 8
    from _json import encode_basestring_ascii as _quoted
except ImportError:  # an interpreter without the compiled module
    from json.encoder import py_encode_basestring_ascii as _quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# The form of a report: text, a JSON document, or Markdown made from the document.

TEXT, JSON, MARKDOWN = "text", "json", "md"
FORMS = (TEXT, JSON, MARKDOWN)


class Form:
    """One of FORMS. It is true if a document is wanted, and false for text.

    `most` is the number of rows of each list on a page, None for the usual number.
    """

    __slots__ = ("most", "name")

    def __init__(self, name: str = TEXT, most: int | None = None) -> None:
        self.name = name
        self.most = most

    def __bool__(self) -> bool:
        return self.name != TEXT

    @property
    def is_markdown(self) -> bool:
        """Return whether a page is wanted."""
        return self.name == MARKDOWN

    def shaped(self, document: str, recording: str | None = None) -> str:
        """Return a JSON document as it is to be printed, as a page if that is wanted.

        `recording` is the file that the document describes, None if it has no name.
        """
        if not self.is_markdown:
            return document
        import json

        from soscope.report.markdown import page

        return page(json.loads(document), self.most, recording)


# JSON documents. `dumps` writes small ones without the standard module, which imports `re` and
# `enum`: an answer that takes ten milliseconds would take eight more to import a decoder.

quoted = _quoted  # a string as JSON, in ASCII


def dumps(value: object) -> str:
    """Return `value` as JSON text, in one line and in ASCII, as json.dumps writes it.

    `value` may consist of None, booleans, integers, floats, strings, lists, tuples, and
    dictionaries with strings as keys. NaN and infinities become the strings "nan", "inf" and
    "-inf", as JSON does not have them. Raises TypeError for other types.
    """
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def _write(value: object, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(quoted(value))
    elif value is None:
        parts.append("null")
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, int):
        parts.append(int.__repr__(value))
    elif isinstance(value, float):
        text = float.__repr__(value)
        parts.append(text if value - value == 0 else quoted(text))
    elif isinstance(value, list | tuple):
        parts.append("[")
        for at, item in enumerate(value):
            if at:
                parts.append(", ")
            _write(item, parts)
        parts.append("]")
    elif isinstance(value, dict):
        parts.append("{")
        for at, (key, item) in enumerate(value.items()):
            if not isinstance(key, str):
                raise TypeError(f"{key!r} is no name")
            parts.append(", " if at else "")
            parts.append(quoted(key) + ": ")
            _write(item, parts)
        parts.append("}")
    else:
        raise TypeError(f"{value!r} cannot be written as JSON")


def json_document(value: Mapping[str, object]) -> str:
    """Return a JSON document for a file or a pipe. Its schema is the first field of `value`."""
    import json

    return json.dumps(value, indent=1) + "\n"


def members(record: object, names: str) -> dict[str, object]:
    """Return fields of a record as members of a JSON object.

    `names` are the names of the fields, with blanks between them.

    >>> from soscope.model.call import StackFrame
    >>> from soscope.report.output import members
    >>> members(StackFrame("libc.so.6", "malloc", 4), "image symbol")
    {'image': 'libc.so.6', 'symbol': 'malloc'}
    """
    return {name: getattr(record, name) for name in names.split()}


# Output to a file descriptor, whose errors do no harm.
#
# The target must not notice that its trace cannot be written: a full disk, a closed terminal, a
# reader that is gone. The first error ends the output and is kept for the notes. If the reader is
# slow, soscope waits for it, but not in write(2), because it has to attend to the target and to
# signals meanwhile.

STDOUT = 1
STDERR = 2


_LITTLE = 512  # bytes that fit whenever a descriptor is writable
_PATIENCE = 50  # ms to wait for the reader before other work


class Output(Destination):
    """Text output to a descriptor. `name` is its name for the user.

    `error` is the error that ended it, None while there is none. `lost` counts the lines that
    were not written since.
    """

    __slots__ = ("_is_old", "_meanwhile", "error", "fd", "lost", "name", "spent_ns")

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name
        self.error: OSError | None = None
        self.lost = 0
        self.spent_ns = 0
        self._is_old = False  # whether the file has content from before
        self._meanwhile: Callable[[], bool] | None = None

    @classmethod
    def open(cls, path: str | None, default: int = STDERR, *, wait: bool = True) -> Output:
        """Open the file of -o: a path, `-` for stdout, None for the default descriptor.

        A new file is readable only by its owner. The previous content stays until `begin`, or
        until something is written. Raises SoscopeError if the file cannot be opened or is another
        user's; without `wait`, also for a pipe without a reader.
        """
        if path is None:
            return cls(default, "standard error" if default == STDERR else "standard output")
        if path == "-":
            return cls(STDOUT, "standard output")
        try:
            fd, is_new = open_to_write(path, 0 if wait else os.O_NONBLOCK)
            output = cls(fd, path)
            output._is_old = not is_new and output.file is not None
            return output
        except OSError as error:
            raise SoscopeError(
                f"cannot write '{path}': {(error.strerror or '').lower()}",
                slug="output",
                errno=error.errno,
            ) from error

    @property
    def is_open(self) -> bool:
        """Return whether output is still written."""
        return self.error is None

    @property
    def is_terminal(self) -> bool:
        """Return whether the output is a terminal."""
        return os.isatty(self.fd)

    @property
    def is_read(self) -> bool:
        """Return whether output still has a reader, also if nothing is written for a while.

        A pipe whose reader is gone gets the error that writing to it would give.
        """
        if self.error is None:
            import select

            poll = select.poll()
            poll.register(self.fd, 0)  # errors are always reported
            if any(events & select.POLLERR for _, events in poll.poll(0)):
                self.error = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        return self.error is None

    @property
    def file(self) -> tuple[int, int] | None:
        """Return device and inode of a regular file, None for other outputs."""
        try:
            status = os.fstat(self.fd)
        except OSError:
            return None  # the descriptor was closed from the start, as writing will report
        return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None

    def begin(self) -> None:
        """Discard the previous content of the file."""
        if self._is_old:
            self._is_old = False
            try:
                os.ftruncate(self.fd, 0)
            except OSError as error:
                self.error = error

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Call `meanwhile` often while the reader is slow. If it returns False, stop writing."""
        try:
            mode = os.fstat(self.fd).st_mode
        except OSError:
            return  # the same as above
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(self.fd):
            self._meanwhile = meanwhile
            if (fd := _opened_again(self.fd)) >= 0:
                self.close()
                self.fd = fd

    def write(self, text: str) -> None:
        """Write all of the text, or keep the error."""
        self.begin()
        if self.error is not None:
            self.lost += text.count("\n")
            return
        begun = time.monotonic_ns()
        self._write_all(text.encode("utf-8", "surrogateescape"))
        self.spent_ns += time.monotonic_ns() - begun

    def _write_all(self, data: bytes) -> None:
        written = 0
        while written < len(data):
            try:
                written += self._write(data, written)
            except BlockingIOError:
                # The descriptor is non-blocking: our own, or the target has made the shared
                # terminal or pipe so.
                if not self._wait():
                    self.error = OSError(errno.EINTR, "it was not read before a signal came")
                    self.lost += data.count(b"\n", written)
                    return
            except OSError as error:
                self.error = error
                self.lost += data.count(b"\n", written)
                return

    @property
    def is_given_up(self) -> bool:
        """Return whether the reader was given up, so that notes on the same pipe would wait."""
        if self.error is None or self.error.errno != errno.EINTR:
            return False
        try:
            return os.path.sameopenfile(self.fd, STDERR)
        except OSError:
            return False  # one of them is closed

    def _write(self, data: bytes, start: int) -> int:
        """Write some data from `start` on. Raises BlockingIOError if the reader is slow."""
        if self._meanwhile is None or not os.get_blocking(self.fd):
            return os.write(self.fd, data[start:] if start else data)
        # A descriptor that is shared with others (a socket), so check first whether a little fits.
        if not self._is_ready(0):
            raise BlockingIOError
        return os.write(self.fd, data[start : start + _LITTLE])

    def _wait(self) -> bool:
        """Wait until the descriptor may take bytes again. Return False to give up."""
        if self._meanwhile is None:
            self._is_ready(1000)
            return True
        return self._is_ready(_PATIENCE) or self._meanwhile()

    def _is_ready(self, milliseconds: int) -> bool:
        import select

        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        return bool(poll.poll(milliseconds))

    def close(self) -> None:
        """Close the file, if it is one. A late error is kept like any other."""
        if self.fd > STDERR:
            try:
                os.close(self.fd)
            except OSError as error:
                self.error = self.error or error


def _opened_again(fd: int) -> int:
    """Open a pipe or terminal again, so that write(2) does not wait; -1 if not possible.

    Other processes share the file description of an inherited descriptor.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        opened = os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return -1  # a socket, another user's terminal, no /proc
    try:
        return opened if opened > STDERR else above_stderr(opened)
    except OSError:
        return -1  # no free descriptor

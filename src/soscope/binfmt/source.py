# SPDX-License-Identifier: Apache-2.0
"""Sources of bytes (files and buffers), and the recognition of kinds of files."""

from __future__ import annotations

import errno
import os
import stat
import struct

from soscope.errors import FormatError

# Recognise a file that a command cannot read by its first bytes, and name a tool that can.

LONGEST = 8  # bytes needed to recognise a file

_KINDS = (
    (b"SOSR", "a recording of soscope", "soscope report {0} shows it, or says which verb does"),
    (b"\x7fELF", "an ELF file", "soscope check {0} reads it"),
    (b"gmon", "a profile of gprof", "soscope prof report --image PROGRAM {0} shows it"),
    (b"PERFILE2", "a recording of perf", "perf report -i {0} shows it"),
    (b"\x1f\x8b", "compressed by gzip", "gunzip < {0} gives what is in it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unzstd < {0} gives what is in it"),
    (b"{", "a JSON document", "soscope writes it and does not read it"),
)
_TEXT = frozenset(range(0x20, 0x7F)) | frozenset(b"\t\n\r\x1b")


def kind_of(begin: bytes, path: str) -> tuple[str, str | None]:
    """Return the kind of a file with this beginning, and a hint: ("an ELF file", "soscope…").

    The kind is "" if the bytes do not tell.
    """
    for magic, what, hint in _KINDS:
        if begin.startswith(magic):
            return what, hint.format(path)
    if not begin:
        return "empty", None
    return ("a text" if _TEXT.issuperset(begin) else ""), None


# Sources of bytes: a file, a buffer, or (in `soscope.proc`) the memory of a process.
#
# A source never raises for missing bytes: it returns fewer. The decoders know what they were
# reading, and turn missing bytes into a FormatError with field and offset.

_AHEAD = 1024  # bytes


class ByteSource:
    """Bytes with random access; `name` is for messages, and a read returns the bytes that exist."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`, fewer at the end of the source."""
        raise NotImplementedError


class BufferSource(ByteSource):
    """A source over bytes, a bytearray, an mmap or a memoryview of bytes."""

    __slots__ = ("_buffer",)

    def __init__(self, buffer: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        super().__init__(name)
        self._buffer = buffer

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`."""
        if offset < 0 or size < 0:
            return b""
        return bytes(self._buffer[offset : offset + size])


class FileSource(ByteSource):
    """A source over an open file, read with pread(2); the caller owns `descriptor`."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(name)
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        """The descriptor of the open file, which the caller owns."""
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`.

        Raises OSError if the file cannot be read.
        """
        # Offsets in a damaged file may be any number, but the kernel takes signed ones. Sizes may
        # be any number, too: no memory is allocated beyond the end of the file.
        if offset < 0 or offset >= 1 << 63 or size <= 0:
            return b""
        if size > 1 << 20:
            size = max(0, min(size, os.fstat(self._descriptor).st_size - offset))
        data = os.pread(self._descriptor, size, offset)
        while 0 < len(data) < size:
            more = os.pread(self._descriptor, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data


class AheadSource(ByteSource):
    """A source that reads ahead in another source, for many small reads in a row."""

    __slots__ = ("_data", "_source", "_start")

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source.name)
        self._source = source
        self._start = 0
        self._data = b""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`."""
        at = offset - self._start
        if at < 0 or at + size > len(self._data):
            self._start, self._data = offset, self._source.read(offset, max(size, _AHEAD))
            at = 0
        return self._data[at : at + size]


def broken(source: ByteSource, field: str, offset: int, why: str) -> FormatError:
    """Make the error for `field` at `offset` of `source`."""
    return FormatError(
        f"{source.name}: {field} at offset {offset:#x}: {why}", field=field, offset=offset
    )


def take(source: ByteSource, offset: int, size: int, field: str) -> bytes:
    """Read exactly `size` bytes at `offset`.

    Raises FormatError, with `field` in its message, if the source ends before.
    """
    data = source.read(offset, size)
    require(data, size, source, offset, field)
    return data


def require(data: bytes, size: int, source: ByteSource, offset: int, field: str) -> None:
    """Raise FormatError for `field` if `data`, read at `offset`, is shorter than `size`.

    A second read would not do: the memory of a process may exist a moment later.
    """
    if len(data) < size:
        raise broken(source, field, offset, f"{size} bytes expected, {len(data)} found")


def length(source: ByteSource) -> int:
    """Return the number of bytes in `source`, by a search with reads of single bytes."""
    top = 1
    while source.read(top, 1) and top < 1 << 62:
        top *= 2
    bottom = 0 if not source.read(0, 1) else top // 2 + 1
    while bottom < top:
        middle = (bottom + top) // 2
        if source.read(middle, 1):
            bottom = middle + 1
        else:
            top = middle
    return bottom


# Numbers of variable length: LEB128 of DWARF, of unwind tables and of Mach-O.

_LEB_BYTES = 10  # hold 64 bits
_64_BITS = (1 << 64) - 1


def uleb(data: bytes, at: int) -> tuple[int, int]:
    """Return the ULEB128 number at `at`, modulo 2**64, and the offset behind it (DWARF 5, 7.6).

    Raises IndexError if `data` ends within the number, or if it has more than ten bytes.

    >>> from soscope.binfmt.source import uleb
    >>> uleb(bytes([0xE5, 0x8E, 0x26]), 0)
    (624485, 3)
    """
    byte = data[at]
    if byte < 0x80:  # most numbers, and there are millions of them
        return byte, at + 1
    value, bits = byte & 0x7F, 7
    while byte >= 0x80:
        if bits == 7 * _LEB_BYTES:
            raise IndexError("a number of too many bytes")
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << bits
        bits += 7
    return value & _64_BITS, at + 1


def sleb(data: bytes, at: int) -> tuple[int, int]:
    """Return the SLEB128 number at `at`, and the offset behind it; errors as of `uleb`."""
    value, behind = uleb(data, at)
    bits = min(7 * (behind - at), 64)
    return value - (value >> bits - 1 << bits), behind


# Open files whose paths another process gave: only regular files, and only in its own root.

# Flags to open a file of unknown kind for reading: a pipe without a writer does not make soscope
# wait, and a terminal does not become its controlling terminal.
READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_NR_OPENAT2 = 437  # on all machines: <asm-generic/unistd.h>
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10  # <linux/openat2.h>


def open_regular(path: str, *, may_be_link: bool = True) -> int | None:
    """Open a regular file for reading, None if there is none that can be read.

    No other file is opened, because merely opening a device or a FIFO may change something. Links
    in the root of another process (`/proc/PID/root/...`) do not lead out of that root.
    """
    flags = os.O_PATH | os.O_CLOEXEC | (0 if may_be_link else os.O_NOFOLLOW)
    try:
        root = _root_in(path)
        place = _open_in_root(root, path[len(root) :], flags) if root else os.open(path, flags)
    except (OSError, ValueError):
        return None
    try:
        if stat.S_ISREG(os.fstat(place).st_mode):
            return os.open(f"/proc/self/fd/{place}", READING)
    except OSError:
        pass  # it may not be read
    finally:
        os.close(place)
    return None


def _root_in(path: str) -> str:
    """Return the beginning `/proc/PID/root` of a path, "" if the path has another beginning."""
    parts = path.split("/", 4)
    if len(parts) == 5 and (parts[0], parts[1], parts[3]) == ("", "proc", "root"):
        return "/".join(parts[:4]) if parts[2].isdecimal() else ""
    return ""


def _open_in_root(root: str, path: str, flags: int) -> int:
    """Open a path as seen by a process with root folder `root`.

    openat2(2) keeps absolute links inside that root. Before Linux 5.6, and if a filter forbids
    openat2, such a link leads into the root of this system. Raises OSError and ValueError.
    """
    import ctypes

    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = struct.pack("QQQ", flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor: int = libc.syscall(_NR_OPENAT2, folder, name, how, ctypes.c_size_t(len(how)))
    finally:
        os.close(folder)
    if descriptor >= 0:
        return descriptor
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):
        return os.open(root + path, flags)
    raise OSError(number, os.strerror(number))

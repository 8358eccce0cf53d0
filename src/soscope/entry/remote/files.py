# SPDX-License-Identifier: Apache-2.0
"""Read files by a stub's vFile packets, for stubs that run on another system."""

from __future__ import annotations

from soscope.entry.remote.stub import RemoteStub

_HEAD = 32  # bytes of a packet beside its content
_MOST = 1 << 28  # bytes of one file


class RemoteFiles:
    """The files of the system that a stub runs on, as seen by the process `pid`."""

    __slots__ = ("_is_chosen", "_pid", "_stub")

    def __init__(self, stub: RemoteStub, pid: int) -> None:
        self._stub = stub
        self._pid = pid
        self._is_chosen = False

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None if there is no such file or the stub opens no files.

        Raises RemoteError if the stub is gone.
        """
        if not self._is_chosen:
            self._is_chosen = True
            # A stub that does not know this packet has only one view of files.
            self._ask(b"setfs:%x" % self._pid)
        name = path.encode("utf-8", "surrogateescape").hex().encode()
        opened = self._ask(b"open:%s,0,0" % name)
        if opened is None:
            return None
        descriptor, data = opened[0], bytearray()
        if descriptor < 0:
            return None
        size = max(self._stub.can.packet_size // 2 - _HEAD, 64)
        while len(data) < _MOST:
            told = self._ask(b"pread:%x,%x,%x" % (descriptor, size, len(data)))
            if told is None or told[0] < 0:
                break
            if not told[0]:
                self._ask(b"close:%x" % descriptor)
                return bytes(data)
            data += told[1]
        self._ask(b"close:%x" % descriptor)
        return None

    def _ask(self, what: bytes) -> tuple[int, bytes] | None:
        """Return the result and the data behind it, None if the stub does not know the packet."""
        answer = self._stub.ask(b"vFile:" + what)
        if answer[:1] != b"F":
            return None
        head, _, attached = answer[1:].partition(b";")
        number = head.partition(b",")[0]
        try:
            value = -int(number[1:], 16) if number[:1] == b"-" else int(number, 16)
        except ValueError:
            return None  # not an answer of the protocol
        return value, attached

# SPDX-License-Identifier: Apache-2.0
"""The first failure to write a recording, noted in the recording itself.

A full disk takes no new block, but an existing one can be changed.
"""

from __future__ import annotations

import errno
import os
import struct

from soscope.recording import format as form

_BODY = struct.Struct("<IIQ")
_MOST = 4095  # MAX_ERRNO of <linux/err.h>
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Trouble:
    """The first failure to write: its `code` (errno), and `at_byte`, the file's length then."""

    __slots__ = ("at_byte", "code")

    def __init__(self, code: int, at_byte: int) -> None:
        self.code = code
        self.at_byte = at_byte

    @property
    def is_full(self) -> bool:
        """Return whether there was no room for more."""
        return self.code in _FULL

    @property
    def why(self) -> str:
        """Return the reason in words."""
        return os.strerror(self.code)

    def block(self) -> bytes:
        """Return the block that notes the failure."""
        return b"".join(form.block(form.TROUBLE, _BODY.pack(self.code, 0, self.at_byte)))

    @classmethod
    def unpack(cls, body: bytes) -> Trouble | None:
        """Return the failure that a block notes, None if there was none. Raises ValueError."""
        if len(body) != _BODY.size:
            raise ValueError(f"has {len(body)} bytes instead of {_BODY.size}")
        code, _, at_byte = _BODY.unpack(body)
        if code > _MOST:
            raise ValueError(f"tells of the impossible error {code}")
        return cls(code, at_byte) if code else None

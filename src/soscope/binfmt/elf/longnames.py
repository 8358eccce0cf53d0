# SPDX-License-Identifier: Apache-2.0
"""Names of unusual length in a string table.

Names may share their ends, so one long string can be the name of as many symbols as it has bytes.
No linker writes names that are together more than a few times as long as their table. Beyond that
limit names are left out, so that memory stays in proportion to the file.
"""

from __future__ import annotations

SHORT = 1024  # bytes; shorter names are read without a check
LONGEST = 1 << 20
_TIMES = 4
_ROOM = 1 << 20


class LongNames:
    """The names in `strings` that are longer than SHORT, up to a limit for all together.

    `reason` is why the last name was left out, "" if none was. `is_spent` is true if all further
    long names are left out, too.
    """

    __slots__ = ("_left", "_strings", "is_spent", "reason")

    def __init__(self, strings: bytes) -> None:
        self._strings = strings
        self._left = _TIMES * len(strings) + _ROOM
        self.reason = ""
        self.is_spent = False

    def read(self, at: int) -> bytes | None:
        """Return the name at `at`; None, with a `reason`, if there is none or it is too long."""
        if self._left <= 0:
            self.is_spent = True
            self.reason = f"names in DT_STRTAB are more than {_TIMES} times as long as all of it"
            return None
        end = self._strings.find(b"\0", at, at + LONGEST + 1)
        looked_at = (end if end >= 0 else min(at + LONGEST, len(self._strings))) - at
        self._left -= max(looked_at, 0)
        if end >= 0:
            return self._strings[at:end]
        if at + LONGEST < len(self._strings):
            self.reason = f"the name at {at:#x} of DT_STRTAB is longer than {LONGEST} bytes"
        else:
            self.reason = f"{at:#x} is outside of DT_STRTAB"
        return None

# SPDX-License-Identifier: Apache-2.0
"""Read prototypes/special.txt: functions that need a special treatment."""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.wire import layout

TREATMENTS = {
    "entry-only": layout.FN_ENTRY_ONLY,
    "twice": layout.FN_TWICE,
    "vfork": layout.FN_TWICE,
    "never": layout.FN_NEVER,
    "brief": layout.FN_BRIEF,
}
_WILD = frozenset("*?[")


class Special:
    """`names` maps a name to its flags, `globs` a flag to its patterns in order."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.globs: dict[int, list[str]] = {}

    def read(self, text: str, file: str) -> None:
        """Read the treatments of `text`. Raises FormatError with file and line."""
        flag = 0
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if not line[0].isspace():
                treatment = words.pop(0)
                if treatment not in TREATMENTS:
                    raise FormatError(
                        f"{file}:{number}: '{treatment}' is no treatment", field=treatment
                    )
                flag = TREATMENTS[treatment]
            for word in words:
                self._add(word, flag, f"{file}:{number}")

    def _add(self, word: str, flag: int, where: str) -> None:
        if _WILD.isdisjoint(word):
            if word in self.names:
                raise FormatError(f"{where}: '{word}' is there twice", field=word)
            self.names[word] = flag
        elif flag & layout.FN_TWICE:
            raise FormatError(f"{where}: a pattern cannot return twice", field=word)
        elif flag == layout.FN_BRIEF:
            raise FormatError(f"{where}: a pattern cannot be brief", field=word)
        else:
            self.globs.setdefault(flag, []).append(word)

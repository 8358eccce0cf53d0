# SPDX-License-Identifier: Apache-2.0
"""The base of the model's classes: it gives what a frozen dataclass gives, at no import cost.

Two records are equal only if they are the same object. Compare `Record.values()` to compare their
fields.
"""

from __future__ import annotations


class Record:
    """A plain record whose fields are its `__slots__`, in order."""

    __slots__: tuple[str, ...] = ()

    def values(self) -> tuple[object, ...]:
        """Return the fields in order; nested records are not converted."""
        return tuple(getattr(self, name) for name in self.__slots__)

    def __repr__(self) -> str:
        """Show every field by name."""
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

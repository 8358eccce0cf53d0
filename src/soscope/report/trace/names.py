# SPDX-License-Identifier: Apache-2.0
"""Names of functions as a trace shows them: those of C++ without their mangling, if wanted."""

from __future__ import annotations

from soscope.frames.cppnames import CppNames
from soscope.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.report.trace.display import Display


class FunctionNames:
    """Demangles names; `display` says whether that is wanted, and hears why it cannot be done."""

    __slots__ = ("_display", "_has_said", "_names")

    def __init__(self, display: Display) -> None:
        self._display = display
        self._names = CppNames()
        self._has_said = False

    def full(self, symbol: str) -> str | None:
        """Return a name of C++ with its parameters, None for all others."""
        full = self._names.full(symbol)
        self._hear()
        return full

    def shown(self, symbol: str) -> str:
        """Return the name that a table shows: of C++, with its parameters."""
        if not self._display.demangles:
            return printable(symbol)
        written = self._names.written(symbol)
        self._hear()
        return printable(written)

    def short(self, symbol: str) -> str:
        """Return the name that stands before arguments: of C++, without its parameters."""
        if not self._display.demangles:
            return printable(symbol)
        short = self._names.short(symbol)
        self._hear()
        return printable(short)

    def _hear(self) -> None:
        if self._names.lacks is not None and not self._has_said:
            self._has_said = True
            self._display.remarks.append(self._names.lacks)

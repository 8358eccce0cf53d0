# SPDX-License-Identifier: Apache-2.0
"""Names of functions in a trace. Names of C++ are demangled if wanted."""

from __future__ import annotations

from soscope.frames.cppnames import CppNames
from soscope.model.call import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.report.trace.display import Display


class FunctionNames:
    """Demangles names if `display` asks for it, and notes in it why that is not possible."""

    __slots__ = ("_display", "_has_said", "_names")

    def __init__(self, display: Display) -> None:
        self._display = display
        self._names = CppNames()
        self._has_said = False

    def full(self, symbol: str) -> str | None:
        """Return a demangled C++ name with its parameters, None for other names."""
        full = self._names.full(symbol)
        self._hear()
        return full

    def shown(self, symbol: str) -> str:
        """Return the name for a table, with its parameters if it is C++."""
        if not self._display.demangles:
            return printable(symbol)
        written = self._names.written(symbol)
        self._hear()
        return printable(written)

    def short(self, symbol: str) -> str:
        """Return the name before arguments, without parameters if it is C++."""
        if not self._display.demangles:
            return printable(symbol)
        short = self._names.short(symbol)
        self._hear()
        return printable(short)

    def _hear(self) -> None:
        if self._names.lacks is not None and not self._has_said:
            self._has_said = True
            self._display.remarks.append(self._names.lacks)

# SPDX-License-Identifier: Apache-2.0
"""Names of functions as people write them: those of C++ without their mangling."""

from __future__ import annotations

from soscope.report.words import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.names.demangle import Demangler
    from soscope.report.trace.display import Display

_MANGLED = "_Z"
_MOST = 1 << 16  # names that are kept


class FunctionNames:
    """Demangles names; `display` says whether that is wanted, and hears why it cannot be done."""

    __slots__ = ("_demangler", "_display", "_known")

    def __init__(self, display: Display) -> None:
        self._display = display
        self._demangler: Demangler | bool | None = None  # False: there is none
        self._known: dict[str, str] = {}

    def full(self, symbol: str) -> str | None:
        """Return a name of C++ with its parameters, None for all others."""
        if not symbol.startswith(_MANGLED):
            return None
        from soscope.live.names.demangle import LONGEST, Demangler, NoDemangler

        if len(symbol) > LONGEST:
            return None
        if self._demangler is None:
            try:
                self._demangler = Demangler()
            except NoDemangler as reason:
                self._demangler = False
                self._display.remarks.append(f"names of C++ stay mangled: {reason}")
        if isinstance(self._demangler, bool):
            return None
        return self._demangler(symbol.encode("utf-8", "surrogateescape"))

    def shown(self, symbol: str) -> str:
        """Return the name that a table shows: of C++, with its parameters."""
        full = self.full(symbol) if self._display.demangles else None
        if full is None:
            return printable(symbol)
        from soscope.live.names.demangle import usual_name

        return printable(usual_name(full))

    def short(self, symbol: str) -> str:
        """Return the name that stands before arguments: of C++, without its parameters."""
        if not self._display.demangles or not symbol.startswith(_MANGLED):
            return printable(symbol)
        known = self._known.get(symbol)
        if known is None:
            from soscope.live.names.demangle import plain_name, usual_name

            full = self.full(symbol)
            known = printable(symbol if full is None else plain_name(usual_name(full)))
            if len(self._known) > _MOST:
                self._known.clear()
            self._known[symbol] = known
        return known

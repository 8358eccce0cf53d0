# SPDX-License-Identifier: Apache-2.0
"""Names of functions as people write them: those of C++ without their mangling."""

from __future__ import annotations

from soscope.report.words import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.names.demangle import Demangler
    from soscope.report.trace.display import Display

_MANGLED = "_Z"
# What everybody calls by another name.
_TRAITS = "char, std::char_traits<char>"
_USUAL = (
    (f"std::__cxx11::basic_string<{_TRAITS}, std::allocator<char> >", "std::string"),
    (f"std::basic_string<{_TRAITS}, std::allocator<char> >", "std::string"),
    (f"std::basic_ostream<{_TRAITS} >", "std::ostream"),
    (f"std::basic_istream<{_TRAITS} >", "std::istream"),
)
_MOST = 1 << 16  # names that are kept
_LONGEST = 4096  # characters of a mangled name that is looked at


class FunctionNames:
    """Demangles names; `display` says whether that is wanted, and hears why it cannot be done."""

    __slots__ = ("_demangler", "_display", "_known")

    def __init__(self, display: Display) -> None:
        self._display = display
        self._demangler: Demangler | bool | None = None  # False: there is none
        self._known: dict[str, str] = {}

    def full(self, symbol: str) -> str | None:
        """Return a name of C++ with its parameters, None for all others."""
        if not symbol.startswith(_MANGLED) or len(symbol) > _LONGEST:
            return None
        if self._demangler is None:
            from soscope.live.names.demangle import Demangler, NoDemangler

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
        return printable(symbol if full is None else _usual(full))

    def short(self, symbol: str) -> str:
        """Return the name that stands before arguments: of C++, without its parameters."""
        if not self._display.demangles or not symbol.startswith(_MANGLED):
            return printable(symbol)
        known = self._known.get(symbol)
        if known is None:
            from soscope.live.names.demangle import plain_name

            full = self.full(symbol)
            known = printable(symbol if full is None else plain_name(_usual(full)))
            if len(self._known) > _MOST:
                self._known.clear()
            self._known[symbol] = known
        return known


def _usual(name: str) -> str:
    """Return a name with the usual ones for the strings and streams of std."""
    for long, short in _USUAL:
        name = name.replace(long, short)
    return name

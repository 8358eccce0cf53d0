# SPDX-License-Identifier: Apache-2.0
"""Demangled names of C++ functions, for lines and stacks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.names.demangle import Demangler
    from soscope.model.call import StackFrame

MANGLED = "_Z"
_MOST = 1 << 16  # names that are kept


class CppNames:
    """Demangles names. `lacks` tells why that is not possible, None if it is."""

    __slots__ = ("_demangler", "_short", "_written", "lacks")

    def __init__(self) -> None:
        self.lacks: str | None = None
        self._demangler: Demangler | None = None
        self._short: dict[str, str] = {}
        self._written: dict[str, str] = {}

    def full(self, symbol: str) -> str | None:
        """Return a demangled C++ name with its parameters, None for other names."""
        if not symbol.startswith(MANGLED):
            return None
        from soscope.live.names.demangle import LONGEST, Demangler, NoDemangler

        if len(symbol) > LONGEST or self.lacks is not None:
            return None
        if self._demangler is None:
            try:
                self._demangler = Demangler()
            except NoDemangler as reason:
                self.lacks = f"names of C++ stay mangled: {reason}"
                return None
        return self._demangler(symbol.encode("utf-8", "surrogateescape"))

    def written(self, symbol: str) -> str:
        """Return the name of a function, with its parameters if it is C++."""
        if not symbol.startswith(MANGLED):
            return symbol
        known = self._written.get(symbol)
        if known is None:
            from soscope.live.names.demangle import usual_name

            full = self.full(symbol)
            known = _keep(self._written, symbol, symbol if full is None else usual_name(full))
        return known

    def short(self, symbol: str) -> str:
        """Return the name of a function, without parameters if it is C++."""
        if not symbol.startswith(MANGLED):
            return symbol
        known = self._short.get(symbol)
        if known is None:
            from soscope.live.names.demangle import plain_name, usual_name

            full = self.full(symbol)
            short = symbol if full is None else plain_name(usual_name(full))
            known = _keep(self._short, symbol, short)
        return known

    def place(self, where: str) -> str:
        """Return `IMAGE!SYMBOL` or `IMAGE!SYMBOL+0xN` with the short name, or `where` itself."""
        image, mark, rest = where.partition(f"!{MANGLED}")
        if not mark:
            return where
        symbol, plus, offset = (MANGLED + rest).partition("+")
        return f"{image}!{self.short(symbol)}{plus}{offset}"

    def frame(self, frame: StackFrame) -> str:
        """Return a frame of a stack as text.

        It is `IMAGE!SYMBOL+0xN (FILE:LINE)` with the short name, or `NAME (FILE:LINE)` for a frame
        of an interpreter.
        """
        if frame.image is None and frame.symbol is not None:
            return f"{frame.symbol} ({frame.file}:{frame.line})"
        name = frame.image or "?"
        if frame.symbol is not None:
            name += f"!{self.short(frame.symbol)}"
        if frame.offset is not None:
            name += f"+{frame.offset:#x}"
        return name if frame.file is None else f"{name} ({frame.file}:{frame.line})"


def _keep(kept: dict[str, str], symbol: str, name: str) -> str:
    if len(kept) > _MOST:
        kept.clear()
    kept[symbol] = name
    return name

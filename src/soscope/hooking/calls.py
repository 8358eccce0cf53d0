# SPDX-License-Identifier: Apache-2.0
"""Converts a C call to the call of a Python callable, and its result or exception back."""

from __future__ import annotations

import ctypes
import operator
import sys
import threading
from collections.abc import Callable
from typing import Any

from soscope.errors import HookError
from soscope.hooking.signature import CtypesSignature

_FLOATS = (ctypes.c_float, ctypes.c_double, ctypes.c_longdouble)


class Text(bytes):
    """A string of the program. If it is passed back unchanged, C gets the same pointer again."""

    addr: int


def text_at(addr: int | None) -> Text | None:
    """Return the string at an address, None if the address is NULL."""
    if not addr:
        return None
    text = Text(ctypes.string_at(addr))
    text.addr = addr
    return text


class PythonCalls:
    """Turns C calls into calls of `function`. C calls the address of `closure`.

    `way_out` is the address at which the original is called. `kept` has the last string that each
    thread has returned to C.
    """

    def __init__(
        self,
        symbol: str,
        function: Callable[..., object],
        signature: CtypesSignature,
        way_out: int,
        kept: dict[int, object],
    ) -> None:
        self.symbol = symbol
        self.signature = signature
        self.is_active = True
        kind = ctypes.CFUNCTYPE(signature.result, *signature.arguments, use_errno=True)
        self._native = kind(way_out)
        self._function = function
        self._kept = kept
        self.closure = kind(self._enter)

    @property
    def addr(self) -> int:
        """The address of `closure`."""
        addr: int = ctypes.cast(self.closure, ctypes.c_void_p).value or 0
        return addr

    def original(self, *arguments: object) -> object:
        """Call the original with arguments like the callable's: strings are bytes or None."""
        result = self._native(*[self._word(argument) for argument in arguments])
        return text_at(result) if self.signature.returns_string else result

    @staticmethod
    def _word(argument: object) -> object:
        if isinstance(argument, Text):
            return argument.addr
        if isinstance(argument, str):
            raise TypeError("a string for C must be bytes, not str")
        return argument

    def _enter(self, *words: Any) -> object:
        if not self.is_active:
            return self._native(*words)
        try:
            arguments = list(words)
            for number in self.signature.strings:
                arguments[number] = text_at(arguments[number])
            return self._back(self._function(*arguments, self.original))
        except BaseException as error:  # noqa: BLE001  C has nobody to hear of it
            _report(error, self._function)
        return self._native(*words)

    def _back(self, result: Any) -> object:
        """Convert the result of the callable for C. Raises TypeError."""
        of = self.signature.result
        if of is None:
            return None
        if of in _FLOATS:
            return float(result)
        if of is not ctypes.c_void_p:
            return operator.index(result)
        if result is None:
            return None
        if isinstance(result, Text):
            return result.addr
        if isinstance(result, bytes):
            buffer = ctypes.create_string_buffer(result)
            self._kept[threading.get_ident()] = buffer
            return ctypes.addressof(buffer)
        return operator.index(result)


def _report(error: BaseException, of: object) -> None:
    """Pass an exception to `sys.unraisablehook`."""
    arguments = _unraisable()(
        (type(error), error, error.__traceback__, "Exception ignored in hook", of)
    )
    try:
        sys.unraisablehook(arguments)
    except BaseException:  # noqa: BLE001  nobody is left to tell
        return


def _unraisable() -> Callable[[tuple[object, ...]], Any]:
    """Return the type of the argument of `sys.unraisablehook`, which has no public name."""
    for candidate in tuple.__subclasses__():
        if candidate.__name__ == "UnraisableHookArgs":
            return candidate
    raise HookError("this interpreter has no UnraisableHookArgs")

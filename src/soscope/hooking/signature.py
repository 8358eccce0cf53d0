# SPDX-License-Identifier: Apache-2.0
"""The ctypes types of a prototype of the catalogue.

`char *` is a string if the declaration tells so (`const char *`, or an annotation). Buffers that
a function fills in, and strings without a zero at the end, are passed as addresses, like every
other pointer.
"""

from __future__ import annotations

import ctypes

from soscope.errors import HookError
from soscope.prototypes import Prototypes, compiled

_REGISTERS, _VECTORS = 6, 8  # for arguments (System V psABI x86-64 §3.2.3)
_NEED_NOT_END = ("LIMIT(", "FOLLOW_UNLESS_0(")
_FLOATS = {4: ctypes.c_float, 8: ctypes.c_double}
_SIGNED = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
_UNSIGNED = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}

_C = "a C function pointer (a ctypes function object, or an address) needs no prototype"


class CtypesSignature:
    """The signature of a function: ctypes types of its `arguments` and its `result`.

    `result` is None for void. `strings` are the indices of the arguments that are strings, and
    `returns_string` is set if the result is a string. `stack_words` is the number of words of
    arguments that are passed on the stack.
    """

    __slots__ = ("arguments", "result", "returns_string", "stack_words", "strings")

    def __init__(
        self, arguments: list[type], result: type | None, strings: list[int], *, text: bool
    ) -> None:
        self.arguments = arguments
        self.result = result
        self.strings = strings
        self.returns_string = text
        self.stack_words = stack_words(arguments)


def stack_words(arguments: list[type]) -> int:
    """Return the number of words of these arguments that are passed on the stack."""
    ints = floats = words = 0
    for of in arguments:
        if of is ctypes.c_longdouble:
            words += words % 2 + 2
        elif of in (ctypes.c_float, ctypes.c_double):
            floats += 1
            words += floats > _VECTORS
        else:
            ints += 1
            words += ints > _REGISTERS
    return words


def signature_of(prototypes: Prototypes, name: str) -> CtypesSignature:
    """Return the signature of the function `name`.

    Raises HookError if it has no prototype, or if no Python callable can replace it.
    """
    known = prototypes.row(name)
    if known is None:
        raise HookError(f"{name}: no prototype: what it is called with is not known", hint=f"{_C}")
    _, arguments, optionals, tail, result, *_, declaration, _ = known
    if any(argument[0] == "va_list" for argument in arguments):
        raise HookError(f"{name}: a va_list cannot be given to a Python callable", hint=_C)
    if optionals or tail:
        raise HookError(f"{name}: a variadic function cannot be a Python callable", hint=_C)
    chunks = _parameters(declaration)
    types, strings = [], []
    for number, (argument, chunk) in enumerate(zip(arguments, chunks, strict=True)):
        types.append(_type(name, argument, f"argument {number + 1}"))
        is_string = argument[4] == compiled.LEADS_TO_STRING and argument[7] is None
        if is_string and not any(word in chunk for word in _NEED_NOT_END):
            strings.append(number)
    of = None if result is None else _type(name, result, "the result")
    text = result is not None and result[4] == compiled.LEADS_TO_STRING
    return CtypesSignature(types, of, strings, text=text)


def _type(name: str, argument: compiled.ArgumentRow, what: str) -> type:
    text, place, _, (show, size, signed, _), *_ = argument
    if show == compiled.SHOW_LONG_DOUBLE:
        return ctypes.c_longdouble
    if show in (compiled.SHOW_STRUCT, compiled.SHOW_COMPLEX) or place == compiled.PLACE_NONE:
        raise HookError(f"{name}: {what} is a structure ({text}), which has no way", hint=_C)
    if show == compiled.SHOW_POINTER or text.endswith("*"):
        return ctypes.c_void_p
    if show == compiled.SHOW_FLOAT:
        return _FLOATS[size]
    return (_SIGNED if signed else _UNSIGNED)[size]


def _parameters(declaration: str) -> list[str]:
    """Return the parameters of a declaration as texts."""
    start = declaration.index("(") + 1
    chunks, depth, begin = [], 0, start
    for at in range(start, len(declaration)):
        sign = declaration[at]
        if sign == "(":
            depth += 1
        elif sign == ")" and depth:
            depth -= 1
        elif not depth and sign in ",)":
            chunks.append(declaration[begin:at].strip())
            begin = at + 1
            if sign == ")":
                break
    return [] if chunks in (["void"], [""]) else chunks

# SPDX-License-Identifier: Apache-2.0
"""Parsing of replacements, SYMBOL=LIB.so:FUNCTION, and of the images whose calls they take.

What the library's file tells is checked before anything starts.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.control.patch import Replacement
from soscope.entry.isa import arch
from soscope.errors import FormatError, UsageError
from soscope.select import filter as expression
from soscope.select.filter import ALL, compile_pattern
from soscope.wire import layout
from soscope.wire.patches import Caller

_FUNCTIONS = (elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_NOTYPE)
_FORM = "SYMBOL=LIB.so:FUNCTION, as in malloc=./count.so:my_malloc"


def parse_replacement(text: str) -> Replacement:
    """Parse SYMBOL=LIB.so:FUNCTION. Raises UsageError if it can never work."""
    symbol, equals, rest = text.partition("=")
    path, colon, function = rest.rpartition(":")
    if not equals or not colon or not (symbol and path and function):
        raise UsageError(f"'{text}': not of the form SYMBOL=LIB.so:FUNCTION", hint=_FORM)
    if any(letter in symbol for letter in "*?[,/"):
        raise UsageError(
            f"'{text}': a pattern cannot be replaced", hint="one --replace for each symbol"
        )
    library = os.path.abspath(path)
    _check(text, library, function)
    return Replacement(symbol, library, function, text)


def _check(text: str, path: str, function: str) -> None:
    """Make sure that the library is for this machine and defines the function."""
    try:
        with open(path, "rb", buffering=0) as file:
            image = ElfImage.from_descriptor(file.fileno(), path)
            symbol = image.symbol(function)
        header = image.header
        if header is None or header.encoding.bits != arch.BITS or header.machine != arch.MACHINE:
            raise UsageError(f"'{text}': {path} is made for another architecture")
        if header.type != elf.ET_DYN:
            raise UsageError(f"'{text}': {path} is no shared library")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"'{text}': cannot open {path}: {reason}") from error
    except FormatError as error:
        raise UsageError(f"'{text}': {error}") from error
    if symbol is None or symbol.type not in _FUNCTIONS:
        raise UsageError(
            f"'{text}': {path} defines no function '{function}'",
            hint="it has to be exported: not static, and in C++ by its mangled name",
        )


def parse_callers(texts: list[str]) -> list[Caller]:
    """Compile the arguments of all --from options. If there are none, all images call.

    Raises UsageError.
    """
    words = [word for text in texts for word in expression.split_commas(text)]
    if ALL in words:
        return []
    return [_caller(expression.parse_image(word)) for word in words]


def _caller(pattern: expression.Pattern) -> Caller:
    if pattern.is_main:
        return Caller(layout.PATCH_FROM_MAIN)
    kind = layout.PATCH_FROM_PATH if pattern.is_path else layout.PATCH_FROM_NAME
    return Caller(kind, compile_pattern(pattern).pack())

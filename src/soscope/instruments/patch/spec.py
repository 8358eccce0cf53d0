# SPDX-License-Identifier: Apache-2.0
"""The parts of a replacement, and the comparison of both functions' signatures."""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf import sections as debuglink
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.control.patch import Replacement
from soscope.entry.isa import arch
from soscope.errors import FormatError, SoscopeError, UsageError
from soscope.prototypes import Prototypes, load
from soscope.select import filter as expression
from soscope.select.filter import ALL, compile_pattern
from soscope.wire import layout
from soscope.wire.patches import Caller

# Check whether a function can replace another one, by the types of arguments and results. A
# replacement that surely breaks is refused: another number of arguments, or an argument or a
# result of another size or in another kind of register. If the types of one function are not
# known, there is nothing to compare. That is an error only if the user asked for the comparison.

_SECONDS = 2.0  # time limit for reading the DWARF of one image
_SECONDS_ASKED = 30.0
_SECTIONS = (".debug_info", ".zdebug_info", ".gnu_debuglink")


def check_replacements(
    wanted: list[Replacement],
    *,
    pid: int | None = None,
    command: str = "",
    is_asked: bool = False,
) -> None:
    """Make sure that each function can stand in place of its symbol.

    The symbols are looked up in process `pid`, or else where `command` will find them when it is
    loaded. Raises UsageError if a replacement cannot work. If the user has asked for the
    comparison (`is_asked`), UsageError is also raised for types that are not known, and
    NoSuchProcess and NotPermitted can come.
    """
    prototypes = load()
    for each in wanted:
        _check_special(each, prototypes)
    if not is_asked:
        wanted = [each for each in wanted if _may_have_types(each.library)]
    if not wanted:
        return

    # Not needed for a library without types.
    from soscope.instruments.patch.comparison import Comparison, NotKnown

    seconds = _SECONDS_ASKED if is_asked else _SECONDS
    comparison = Comparison(prototypes, pid, command, seconds)
    try:
        for each in wanted:
            try:
                wrong = comparison.misfit(each)
            except NotKnown as reason:
                wrong = str(reason) if is_asked else ""
            except (SoscopeError, OSError):
                if is_asked:
                    raise
                continue
            if wrong:
                raise _refusal(each, wrong)
    finally:
        comparison.close()


def _may_have_types(path: str) -> bool:
    """Return whether a library has debug information, or a separate file with it."""
    try:
        with open(path, "rb", buffering=0) as file:
            image = ElfImage.from_descriptor(file.fileno(), path)
            sections = Sections.read(image)
            build_id = image.build_id
    except (SoscopeError, OSError):
        return False  # the loader will report what is wrong
    if any(sections.named(name) is not None for name in _SECTIONS):
        return True
    return len(build_id) > 1 and os.path.exists(debuglink.build_id_path(build_id))


def _refusal(each: Replacement, text: str) -> UsageError:
    spec = each.text or f"{each.symbol}={each.library}:{each.function}"
    return UsageError(f"--replace '{spec}': {text}")


# A compiler calls these hooks as C calls functions, with arguments (GCC's manual,
# -finstrument-functions). So a user's own profiler may stand there.
_CALLED_AS_C = ("__cyg_profile_func_enter", "__cyg_profile_func_exit")


def _check_special(each: Replacement, prototypes: Prototypes) -> None:
    """Refuse functions that no function written in C can replace."""
    flags = prototypes.treatment(each.symbol)
    if flags & layout.FN_TWICE:
        raise _refusal(
            each,
            f"{each.symbol} returns several times from one call, "
            "and a function in its place would be gone after the first",
        )
    if flags & layout.FN_NEVER and each.symbol not in _CALLED_AS_C:
        raise _refusal(
            each,
            f"soscope leaves {each.symbol} alone: it is the compiler's own, "
            "and not called as C calls functions",
        )


# Parsing of replacements, SYMBOL=LIB.so:FUNCTION, and of the images whose calls they take.
#
# What the library's file tells is checked before anything starts.

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

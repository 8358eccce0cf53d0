# SPDX-License-Identifier: Apache-2.0
"""Read the types of both functions of a replacement, and compare them.

The types of the user's function are in the DWARF of its library. The types of the replaced
function are declared in soscope's prototypes, or are in the DWARF of the file that defines the
symbol. That file is found in a running process, or among a program and its libraries as a loader
will find them.
"""

from __future__ import annotations

import os
import re

from soscope.binfmt.dwarf.names import DwarfError
from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.control.patch import Replacement
from soscope.errors import SoscopeError
from soscope.live.names.dwarfnames import DwarfNames
from soscope.live.names.staticnames import ImageNames
from soscope.model.call import INTEGER, MEMORY, RECORD, VOID, WORD, PassedType, Signature
from soscope.prototypes import Prototypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.process import Process

_FLAGS = os.O_RDONLY | os.O_CLOEXEC
# Libraries whose functions soscope declares. A function with the same name in another library may
# be a different one.
_DECLARED = re.compile(
    r"(libc|libm|libpthread|libdl|librt|libutil|libresolv|libcrypt|libz|libstdc\+\+|libgcc_s)"
    r"[-.0-9]*\.so.*|ld-.*|libc\.musl-.*"
)


class NotKnown(Exception):  # noqa: N818  an error only with --check-types
    """The types of a function are not known; the text tells why.

    `definer` is the name of the file that defines the function, "" if that is not known either.
    """

    def __init__(self, text: str, definer: str = "") -> None:
        super().__init__(text)
        self.definer = definer


class Comparison:
    """Compares replacements one after the other. Each file is read only once."""

    def __init__(
        self, prototypes: Prototypes, pid: int | None, command: str, seconds: float
    ) -> None:
        self._prototypes = prototypes
        self._pid = pid
        self._command = command
        self._seconds = seconds
        self._process: Process | None = None
        self._libraries: dict[str, _Library] = {}

    def close(self) -> None:
        """Close the files and the process that were read."""
        for library in self._libraries.values():
            library.close()
        if self._process is not None:
            self._process.close()

    def misfit(self, each: Replacement) -> str:
        """Return why a function does not fit, "" if it does. Raises NotKnown, SoscopeError."""
        ours = self._of_library(each)
        theirs = self._prototypes.signature(each.symbol)
        is_declared = theirs is not None
        if theirs is None:
            theirs = self._of_symbol(each.symbol)
        wrong = misfit(each.function, ours, each.symbol, theirs)
        if wrong and is_declared:
            # The symbol may be another function with this name, defined by the program itself.
            try:
                theirs = self._of_symbol(each.symbol)
                wrong = misfit(each.function, ours, each.symbol, theirs)
            except NotKnown as reason:
                if reason.definer and not _DECLARED.fullmatch(reason.definer):
                    raise
            except (SoscopeError, OSError):
                pass  # then only the declaration is known
        if wrong:
            return wrong
        for name, signature in ((each.function, ours), (each.symbol, theirs)):
            if not signature.is_known:
                raise NotKnown(f"the types of '{name}' are not known: {_missing(signature)}")
        return ""

    def _of_library(self, each: Replacement) -> Signature:
        unknown = f"the types of '{each.function}' are not known: "
        return self._library(each.library).signature(
            each.function, self._seconds, unknown, " (compile it with -g)"
        )

    def _library(self, path: str) -> _Library:
        library = self._libraries.get(path)
        if library is None:
            library = self._libraries[path] = _Library(path)
        return library

    def _of_symbol(self, symbol: str) -> Signature:
        """Return the types of the function that `symbol` will be bound to. Raises NotKnown."""
        unknown = f"the types of '{symbol}' are not known: "
        if self._pid is not None:
            return self._of_process(symbol, self._pid, unknown)
        try:
            path = _provider(self._command, symbol)
        except (SoscopeError, OSError):
            path = None  # a script, or no such file: the launch reports that
        if path is None:
            raise NotKnown(f"{unknown}soscope has no declaration of it")
        return self._library(path).signature(symbol, self._seconds, unknown)

    def _of_process(self, symbol: str, pid: int, unknown: str) -> Signature:
        if self._process is None:
            # Only needed if the function is not declared, or its declaration does not fit.
            from soscope.live.process import Process

            self._process = Process(pid)
        from soscope.live.lookup.answer import KIND_PLT

        answer = self._process.resolve(symbol)
        if answer.addr is None or answer.image is None:
            raise NotKnown(f"{unknown}no image of process {pid} defines it")
        image = answer.image
        if answer.kind == KIND_PLT:
            raise NotKnown(f"{unknown}it is a stub of {image.name}")
        names = DwarfNames(image.names, has_types=True)
        if not names.is_there:
            raise NotKnown(f"{unknown}{image.name} has no debug information", image.name)
        vaddr = answer.addr - image.load_bias & (1 << self._process.space.bits) - 1
        return _signature(names, vaddr, symbol, self._seconds, unknown, image.name)


class _Library:
    """The file of a library with functions to compare. It stays open until `close`."""

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        self._descriptor = os.open(path, _FLAGS)
        self._image = ElfImage.from_descriptor(self._descriptor, path)
        names = ImageNames(self._image, build_id=self._image.build_id, path=path, roots=[""])
        self._names = DwarfNames(names, has_types=True)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def signature(self, function: str, seconds: float, unknown: str, remedy: str = "") -> Signature:
        """Return a function's types. Raises NotKnown with a text that begins with `unknown`."""
        if not self._names.is_there:
            raise NotKnown(f"{unknown}{self.name} has no debug information{remedy}", self.name)
        symbol = self._image.symbol(function)
        if symbol is None:
            raise NotKnown(f"{unknown}{self.name} does not define it")
        # At the address of an IFUNC lies its resolver, which has other types than the function.
        vaddr = None if symbol.type == elf.STT_GNU_IFUNC else symbol.value
        return _signature(self._names, vaddr, function, seconds, unknown, self.name)


def _provider(command: str, symbol: str) -> str | None:
    """Return the file of a program or of its libraries that will define a symbol, None if none.

    Raises OSError, or FormatError if the program is no ELF file.
    """
    # Only needed if the function is not declared, or its declaration does not fit.
    from shutil import which

    from soscope.linker.library import open_image
    from soscope.linker.providers import Providers

    path = which(command)
    if path is None:
        return None
    image = open_image(path)
    if image.symbol(symbol) is not None:
        return path
    library_path = os.environ.get("LD_LIBRARY_PATH", "")
    return Providers(image, path, library_path=library_path).find(symbol).path


def _signature(
    names: DwarfNames, vaddr: int | None, function: str, seconds: float, unknown: str, where: str
) -> Signature:
    try:
        signature = names.signature(vaddr, function, seconds)
    except DwarfError as error:
        raise NotKnown(f"{unknown}{where}: {error}", where) from error
    if signature is None:
        raise NotKnown(f"{unknown}{where} has no description of it", where)
    return signature


def _missing(signature: Signature) -> str:
    """Return which part of a signature is not known."""
    if signature.arguments is None:
        return "it has no prototype"
    for number, argument in enumerate(signature.arguments, 1):
        if not argument.is_known:
            return f"how its argument {number}, {argument.text}, is passed"
    return f"how its result, {signature.result.text}, is returned"


def misfit(name: str, ours: Signature, symbol: str, theirs: Signature) -> str:
    """Return why function `name` cannot replace `symbol`, "" if no reason is known."""
    if ours.arguments is not None and theirs.arguments is not None:
        wrong = _misfit_of_arguments(name, ours, symbol, theirs)
        if wrong:
            return f"{name} takes {ours.taken}, {symbol} takes {theirs.taken}: {wrong}"
    result, wanted = ours.result, theirs.result
    if not result.is_known or not wanted.is_known:
        return ""
    if wanted.kind == VOID:
        # the caller of a void function passes no address for a result in memory
        is_misfit = MEMORY in result.classes
    elif result.kind == VOID:
        is_misfit = True
    else:
        is_misfit = not result.fits(wanted)
    if not is_misfit:
        return ""
    text = f"{name} returns {result.text}, {symbol} returns {wanted.text}"
    if VOID in (result.kind, wanted.kind):
        return text
    return f"{text}: {_difference(result, wanted)}"


def _misfit_of_arguments(name: str, ours: Signature, symbol: str, theirs: Signature) -> str:
    assert ours.arguments is not None
    assert theirs.arguments is not None
    wanted = theirs.arguments
    if theirs.is_variadic and not ours.is_variadic:
        tail = ours.arguments[len(wanted) :]
        if not _fits_tail(tail, theirs):
            return f"{symbol} has '...', {name} has not"
    elif ours.is_variadic and not theirs.is_variadic:
        return f"{name} has '...', {symbol} has not"
    elif len(ours.arguments) != len(wanted):
        return f"{_count(len(ours.arguments))} for {len(wanted)}"
    for number, (argument, other) in enumerate(zip(ours.arguments, wanted, strict=False), 1):
        if not argument.fits(other):
            return f"argument {number} is {_difference(argument, other)}"
    return ""


def _fits_tail(tail: tuple[PassedType, ...], theirs: Signature) -> bool:
    """Return whether named arguments can take the variadic arguments of the replaced function."""
    if not tail:
        return False
    if any(
        len(tail) == len(known) and all(map(PassedType.fits, tail, known)) for known in theirs.tails
    ):
        return True
    return len(tail) <= theirs.words and all(
        argument.kind == WORD and argument.classes == (INTEGER,) for argument in tail
    )


def _count(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


def _difference(ours: PassedType, theirs: PassedType) -> str:
    if ours.size != theirs.size:
        return f"{_sized(ours)} for {_sized(theirs)}"
    return f"{ours.text} ({_where(ours)}) for {theirs.text} ({_where(theirs)})"


def _sized(of: PassedType) -> str:
    return f"{of.text} ({of.size} byte{'s' * (of.size != 1)})"


def _where(of: PassedType) -> str:
    """Return the kind of registers that a type is passed in."""
    if of.kind == RECORD:
        return f"a structure: {'+'.join(of.classes)}"
    return {(INTEGER,): "an integer", (INTEGER, INTEGER): "an integer"}.get(of.classes, of.kind)

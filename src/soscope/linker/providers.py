# SPDX-License-Identifier: Apache-2.0
"""Find the library that provides a symbol of a file, or the reason why none does.

The files are found by `search`, in the loader's order. Each file's symbols are looked up as the
loader does (`binfmt/elf/symboltable.py`). If a library is examined by itself, it counts as the
first of its scope. A program that loads it may have a definition that precedes all of these.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.symboltable import CALL, SymbolTable
from soscope.errors import FormatError
from soscope.linker.library import Library, Wanted, demand_files
from soscope.linker.paths import Root
from soscope.linker.search import Needed, Search, extension_of, program_of, shared_system
from soscope.linker.system import System

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NOWHERE = "no library in the search defines it"
WEAK = "weak: may stay undefined"
ALONE = "no DT_NEEDED: whoever loads it provides it"
STATIC = "no DT_NEEDED: nothing is searched"
_MAX_SCOPES = 4096


class Provider(NamedTuple):
    """The library that defines a symbol.

    `name` is the library's name in the file that needs it (DT_NEEDED: "libc.so.6"). `path` is the
    file that was found, without the links of a sysroot. Both are None if there is no provider,
    and `reason` tells why.
    """

    name: str | None
    path: str | None
    reason: str | None


class Lack(NamedTuple):
    """A symbol that a file needs, but that no file taken by the loader defines.

    `path` is the file that needs it. If another file with the same name as a library that was
    taken defines the symbol, `other` is that file and `taken` is the library's file. Both are ""
    if there is none.
    """

    path: str
    symbol: str
    version: str | None
    taken: str
    other: str


class _Scope:
    """The libraries that are searched, in order, and the answers so far."""

    __slots__ = (
        "_offers",
        "answers",
        "asked",
        "closed",
        "files",
        "lacking",
        "libraries",
        "missing",
        "state",
        "system",
    )

    def __init__(self, system: System, program: Library) -> None:
        search = Search(system, program)
        libraries = search.run()
        self.system = system
        # the search itself is not kept, because it holds the program, which holds its file
        self.libraries: list[tuple[str, Library]] = [
            (needed.name, needed.library)
            for needed in libraries
            if needed is not search.program and needed.library is not None
        ]
        self._offers: list[tuple[Provider, SymbolTable]] | None = None
        self.closed: tuple[str, ...] = ()  # libraries whose symbols cannot be read, once searched
        self.missing = tuple(needed.name for needed in search.missing)
        self.asked: dict[str, str | None] = {name: _place(search, name) for name in search.asked}
        self.state = system.state
        self.files = frozenset(
            library.stamp[:2] for _, library in self.libraries if library.stamp is not None
        )
        self.answers: dict[Wanted, Provider | None] = {}
        self.lacking: list[tuple[str, Wanted]] | None = None  # their lacks, once computed

    def is_the_same(self) -> bool:
        """Return whether all its files are unchanged, and would be found again."""
        if self.missing or self.state != self.system.state:
            return False
        return all(self.system.open(library.path) is library for _, library in self.libraries)

    def is_for(self, program: Library) -> bool:
        """Return whether no library of the scope needs `program` itself."""
        if program.soname is not None and program.soname in self.asked:
            return False
        return program.stamp is None or program.stamp[:2] not in self.files

    def find(self, name: str, version: str | None) -> Provider | None:
        """Return the first library that defines the symbol, None if there is none."""
        if self._offers is None:
            self._offers = [
                (Provider(name, library.path, None), library.exports)
                for name, library in self.libraries
                if library.exports is not None
            ]
            self.closed = tuple(name for name, library in self.libraries if library.exports is None)
        if not self._offers:
            return None
        wanted = self.system.word(name)
        is_musl = self.system.is_musl
        for provider, offer in self._offers:
            try:
                if offer.find(wanted, version, use=CALL, musl=is_musl) is not None:
                    return provider
            except FormatError:
                continue  # a version without a name: nothing is bound to it
            except OSError as error:
                demand_files(error)  # a number that is no version of its own; the file is gone
        return None

    def find_lacking(self) -> list[tuple[str, Wanted]]:
        """Return (path of a library, symbol it needs) for symbols that no other library defines."""
        if self.lacking is None:
            self.lacking = [
                (library.path, wanted)
                for _, library in self.libraries
                for wanted in self.lacks_of(library, library.wanted)
            ]
        return self.lacking

    def lacks_of(self, library: Library, wanted: Iterable[Wanted]) -> list[Wanted]:
        """Return the symbols that a file needs and no library defines."""
        lacking = []
        for name, version in wanted:
            if (name, version) not in self.answers:
                self.answers[name, version] = self.find(name, version)
            if self.answers[name, version] is None:
                lacking.append((name, version))
        return library.looked_for(lacking) if lacking else []


def _place(search: Search, name: str) -> str | None:
    """Return the file that was found for a name, None if there is none."""
    needed = search.known.get(name)
    return needed.library.path if needed is not None and needed.library is not None else None


# Scopes are kept for the next file, by the program's properties that decide about them.
_scopes: dict[tuple[int, bool, tuple[tuple[int, str], ...]], _Scope] = {}


class Providers:
    """Finds the providers of one file's symbols.

    `image` is the file at `path`, which must stay open. With a `sysroot`, all paths in files, and
    those in `library_path` (LD_LIBRARY_PATH), are below it.
    """

    def __init__(
        self, image: ElfImage, path: str, *, sysroot: str = "", library_path: str = ""
    ) -> None:
        self._image = image
        self._weak: set[str] | None = None
        self._host: tuple[str, tuple[str, ...]] | None = None
        root = Root(sysroot)
        self._program = program_of(image, path, root)
        self._scope = _scope_for(root, self._program, library_path)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of libraries that were not found, or cannot be loaded."""
        return self._scope.missing

    def where(self, needed: str) -> str | None:
        """Return the file that is loaded for a DT_NEEDED name, None if there is none."""
        return self._scope.asked.get(needed)

    def find(self, name: str, version: str | None = None, *, weak: bool | None = None) -> Provider:
        """Return the library that defines a symbol which the file uses but does not define.

        `weak` tells whether the reference is weak. If it is None, it is looked up when it
        matters.
        """
        scope = self._scope
        try:
            provider = scope.answers[name, version]
        except KeyError:
            provider = scope.answers[name, version] = scope.find(name, version)
        return provider or Provider(None, None, self._reason(name, weak))

    def lacks(self) -> list[Lack]:
        """Return the symbols that are not defined anywhere, but are needed to load the file.

        For a program, the lacks of its libraries are included, because they are loaded with it.
        If a library is examined by itself, the program that loads it may define its symbols. So
        only symbols are included that a file defines which the loader passes over. If a library
        is missing or cannot be read, nothing is returned.
        """
        program, scope = self._program, self._scope
        if not program.leading or scope.missing:
            return []
        lacking = [(program.path, wanted) for wanted in scope.lacks_of(program, program.wanted)]
        if program.is_program:
            lacking += [
                (path, wanted) for path, wanted in scope.find_lacking() if not self._has(*wanted)
            ]
        # only a look-up shows which libraries cannot be read, and the program may have made none
        if scope.closed or not lacking:
            return []
        search = Search(scope.system, program)
        # by the file that was read, because another name may be a link to it
        askers = {each.library.path: each for each in search.run() if each.library is not None}
        lacks = []
        for path, wanted in lacking:
            asker = askers.get(path)
            if asker is None:
                continue  # its file has been replaced meanwhile
            taken, other = _passed_over(search, asker, scope, wanted)
            if other or program.is_program:
                lacks.append(Lack(path, *wanted, taken, other))
        return lacks

    def _has(self, name: str, version: str | None) -> bool:
        """Return whether the file itself defines a symbol; true if that cannot be read."""
        system = self._scope.system
        word, symbols = system.word(name), self._image.symbols
        try:
            return symbols.find(word, version, use=CALL, musl=system.is_musl) is not None
        except FormatError:
            return True
        except OSError as error:
            demand_files(error)
            return True

    def _reason(self, name: str, weak: bool | None) -> str:
        if self._is_weak(name) if weak is None else weak:
            return WEAK
        program = self._program
        if not program.leading:
            return STATIC if program.is_program else ALONE
        if self._scope.missing:
            return f"{self._scope.missing[0]} not found, and perhaps there"
        if self._scope.closed:
            return f"{self._scope.closed[0]} cannot be read, and perhaps there"
        if program.is_program:
            return NOWHERE
        if self._host is None:
            self._host = _host_of(self._image)
        what, names = self._host
        if name.startswith(names):
            return f"{what}: the program that loads it provides it"
        return f"{NOWHERE}: a program that loads this one may"

    def _is_weak(self, name: str) -> bool:
        if self._weak is None:
            try:
                self._weak = self._image.symbols.undefined_weak()
            except FormatError:
                self._weak = set()
            except OSError as error:
                demand_files(error)
                self._weak = set()
        return name in self._weak


def _passed_over(search: Search, asker: Needed, scope: _Scope, wanted: Wanted) -> tuple[str, str]:
    """Return the library that is taken, and a file of the same name that has the symbol, or ""."""
    name, version = wanted
    word = scope.system.word(name)
    assert asker.library is not None
    for tag, needed in asker.library.leading:
        taken = search.known.get(needed)
        if tag != c.DT_NEEDED or taken is None:
            continue
        for library in search.every(needed, asker):
            if library.exports is None:
                continue
            try:
                entry = library.exports.find(word, version, use=CALL, musl=scope.system.is_musl)
            except FormatError:
                continue  # as in a scope: nothing is bound to it
            except OSError as error:
                demand_files(error)
                continue
            if entry is not None:
                return taken.path, library.path
    return "", ""


def _host_of(image: ElfImage) -> tuple[str, tuple[str, ...]]:
    try:
        return extension_of(image) or ("", ())
    except FormatError:
        return "", ()
    except OSError as error:
        demand_files(error)
        return "", ()


def _scope_for(root: Root, program: Library, library_path: str) -> _Scope:
    """Return the scope of a program, a kept one of a similar program if it is still valid."""
    system = shared_system(root, program, library_path)
    is_plain = "$" not in library_path  # $ORIGIN depends on the program
    is_plain = (
        is_plain and not program.avoids_defaults and not program.rpath and not program.runpath
    )
    if not is_plain or any("$" in name or "/" in name for _, name in program.leading):
        return _Scope(system, program)
    needs = id(system), program.is_program, tuple(program.leading)
    known = _scopes.get(needs)
    if known is not None and known.is_for(program) and known.is_the_same():
        return known
    made = _Scope(system, program)
    if made.is_for(program):
        if len(_scopes) >= _MAX_SCOPES:
            _scopes.clear()
        _scopes[needs] = made
    return made

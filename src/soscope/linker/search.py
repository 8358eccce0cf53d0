# SPDX-License-Identifier: Apache-2.0
"""Find the files that a loader would map for a program, in order, without running it.

glibc, by ld.so(8), elf/dl-load.c (_dl_map_object) and elf/dl-deps.c (_dl_map_object_deps):
DT_RPATH of the image and of the images that need it, LD_LIBRARY_PATH, DT_RUNPATH, ld.so.cache,
the default folders. musl, by ldso/dynlink.c (load_library): LD_LIBRARY_PATH first, then the paths
of the image and of the images that need it, then the folders of /etc/ld-musl-ARCH.path. musl has
no cache.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import ElfReader
from soscope.linker import paths
from soscope.linker.library import DT_AUXILIARY, Library, open_image, stamp_of
from soscope.linker.machine import Kind, machine_of
from soscope.linker.paths import Root
from soscope.linker.system import Found, System
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Extensions of a program, whose undefined symbols are in the program that loads them.
#
# Each kind is recognised by the function that its program looks up in it. The program's own
# functions have a common prefix.

_MAX_STRINGS = 1 << 28
# (name in its string table, prefixes of the program's functions, the program)
_HOSTS = (
    (b"\0PyInit_", ("Py", "_Py"), "a Python extension"),
    (b"\0boot_", ("Perl", "PL_", "perl"), "a Perl extension"),
    (b"\0Init_", ("rb_", "ruby_", "onig"), "a Ruby extension"),
    (b"\0luaopen_", ("lua",), "a Lua module"),
    (b"\0Pg_magic_func\0", ("",), "a PostgreSQL module"),
    (b"\0get_module\0", ("zend", "php", "_e", "_z", "std_", "core_", "sapi"), "a PHP extension"),
    (b"\0napi_register_module_v1\0", ("napi_", "node_", "uv_"), "a Node.js addon"),
    (b"\0nif_init\0", ("enif_",), "an Erlang NIF"),
    (b"\0R_init_", ("R", "Rf_", "SET", "Rprintf"), "an R package"),
    (b"\0plugin_is_GPL_compatible\0", ("",), "a plugin of GCC"),
)


def extension_of(image: ElfReader) -> tuple[str, tuple[str, ...]] | None:
    """Return (program of an extension, prefixes of that program's names), None for other images.

    Raises FormatError, OSError.
    """
    at, size = image.locate_pointer(c.DT_STRTAB), image.dynamic.get(c.DT_STRSZ)
    if at is None or not size:
        return None
    strings = b"\0" + image.source.read(at, min(size, _MAX_STRINGS))
    for mark, names, what in _HOSTS:
        if mark in strings:
            return what, names
    return None


__all__ = ["open_image"]  # what others import from here

_MAX_IMAGES = 4096
# ldso/dynlink.c, load_library: musl's loader contains these libraries
_MUSL_ITSELF = tuple(f"lib{name}." for name in ("c", "pthread", "rt", "m", "dl", "util", "xnet"))


class Needed(Record):
    """One file of a program: the program itself, its loader, or a library.

    `name` is the name that another file uses for it, `by` that file (None for the program).
    `path` is its path on this system, "" if it was not found. `library` is None if there is none
    that can be loaded; then `why` tells the reason.
    """

    name: str
    path: str
    by: Needed | None
    library: Library | None
    why: str
    rpath: list[str] | None = None  # folders on this system, once computed
    runpath: list[str] | None = None

    @property
    def image(self) -> ElfImage | None:
        """The image of the file, None if it cannot be loaded."""
        return None if self.library is None else self.library.image


def program_of(image: ElfImage, path: str, root: Root) -> Library:
    """Return the data that a loader reads from the file at `path`, which is open as `image`."""
    path = root.absolute(path)
    try:
        stamp = stamp_of(os.stat(root.resolve(path)))
    except (OSError, ValueError):
        stamp = None
    return Library(path, image, stamp)


def system_for(root: Root, program: Library, library_path: str) -> System:
    """Return the system on which `program` would be loaded."""
    system = System(root, program.kind, program.flags, loader_of(program), ())
    asker = Needed("", program.path, None, program, "")
    if system.is_musl:
        system.library_folders = tuple(
            root.host(part) for part in library_path.replace("\n", ":").split(":") if part
        )
    else:
        listed = paths.folders(library_path, _values(system, asker), ":;")
        system.library_folders = tuple(_here(root, asker.path, *entry) for entry in listed)
    return system


# Systems that were used before: their data serve the next file, too.
_systems: dict[tuple[str, str, Kind, int, str], System] = {}


def shared_system(root: Root, program: Library, library_path: str) -> System:
    """Return the result of `system_for`, refreshed, but shared by all files of the same kind.

    Files that it has opened may be closed again, so only their symbols can be used.
    """
    if "$" in library_path:  # $ORIGIN depends on the program
        return system_for(root, program, library_path)
    key = root.prefix, library_path, program.kind, program.flags, loader_of(program)
    system = _systems.get(key)
    if system is None:
        system = _systems[key] = system_for(root, program, library_path)
    system.refresh()
    return system


def loader_of(program: Library) -> str:
    """Return the loader in a file, "" if it names none.

    A library names no loader, but one that was built with musl needs musl's C library.
    """
    if program.interpreter is not None:
        return program.interpreter
    for tag, name in program.leading:
        if tag == c.DT_NEEDED and (name == "libc.so" or name.startswith("libc.musl-")):
            arch = machine_of(program.kind, program.flags).musl
            return f"/lib/ld-musl-{arch}.so.1"
    return ""


def _origin(root: Root, asker: Needed) -> str:
    """Return $ORIGIN as the target sees it; for a file that it does not see, this system's path."""
    assert asker.library is not None
    path = asker.path
    if asker.by is None and asker.library.is_program:  # from /proc/self/exe
        path = root.resolve(path) if root.prefix else os.path.realpath(path)
    return os.path.dirname(root.inner(os.path.abspath(path))) or "/"


def _values(system: System, asker: Needed) -> dict[str, str]:
    return {
        "ORIGIN": _origin(system.root, asker),
        "PLATFORM": system.platform,
        "LIB": system.lib,
    }


def _here(root: Root, path: str, folder: str, by_origin: bool) -> str:
    """Return a folder named by the file at `path` as a path of this system."""
    if by_origin and not root.is_inside(path):
        return folder
    return root.host(folder)


def closure(program: ElfImage, path: str, library_path: str = "") -> list[Needed]:
    """Return the program, its loader and all libraries, breadth first as a loader maps them.

    `library_path` is LD_LIBRARY_PATH. A file that is not found is in the list without a path.
    """
    root = Root("")
    library = program_of(program, path, root)
    search = Search(system_for(root, library, library_path), library)
    libraries = search.run()
    libraries[0].path = path
    if library.interpreter is None:
        return libraries
    loader = search.loader
    assert loader is not None
    rest = [needed for needed in libraries[1:] if needed is not loader]
    return [libraries[0], loader, *rest]


def own_folders(image: ElfImage, path: str) -> list[str]:
    """Return the folders in DT_RPATH and DT_RUNPATH of the file at `path` that count."""
    root = Root("")
    library = program_of(image, path, root)
    search = Search(shared_system(root, library, ""), library)
    before, behind = search.folders_of(Needed("", library.path, None, library, ""))
    return [*before, *behind]


class Search:
    """Finds the libraries of one program, or of a library that is examined by itself.

    After `run`, `known` has the files by all names that other files or they themselves use.
    `asked` are only the names that other files use. `missing` are the files that were not found,
    or cannot be loaded. `loader` is the program's loader, None if it names none.
    """

    def __init__(self, system: System, program: Library) -> None:
        self.system = system
        self.program = Needed(program.path, program.path, None, program, "")
        self.known: dict[str, Needed] = {}
        self.asked: set[str] = set()
        self.missing: list[Needed] = []
        self.loader: Needed | None = None
        self._loader: Needed | None = None
        self._files: dict[tuple[int, int], Needed] = {}
        self._enter(self.program, is_named=False)
        if program.interpreter is not None or not program.is_program:
            self._enter_loader(named=program.interpreter is not None)

    # ---- in order ----

    def run(self) -> list[Needed]:
        """Return the files in the order in which the loader searches them for a symbol.

        The program is the first, unless it is a filter of another file. Missing files are in the
        list, too, at their positions.
        """
        listed = [self.program]
        queued = {id(self.program)}
        done: set[int] = set()
        at = 0
        while at < len(listed):
            asker = listed[at]
            if id(asker) in done or asker.library is None:
                at += 1
                continue
            done.add(id(asker))
            place = at
            for tag, name in asker.library.leading:
                if len(listed) >= _MAX_IMAGES:
                    break
                if self.system.is_musl and tag != c.DT_NEEDED:
                    continue
                needed = self._named(name, asker, is_optional=tag == DT_AUXILIARY)
                if needed is None:
                    continue
                if tag == c.DT_NEEDED:
                    if id(needed) not in queued:
                        queued.add(id(needed))
                        listed.append(needed)
                elif id(needed) not in queued or needed in listed[place + 1 :]:
                    # a filtee comes before the file that names it, even if it is in the queue
                    # already
                    if id(needed) in queued:
                        listed.remove(needed)
                    queued.add(id(needed))
                    listed.insert(place, needed)
                    place += 1
            # files inserted before the asker are processed before those behind it
        return listed

    def _named(self, name: str, asker: Needed, *, is_optional: bool) -> Needed | None:
        """Return the file for `name`, None if it is optional and missing."""
        needed = self._wanted(name, asker, is_optional=is_optional)
        if needed is not None and needed is self._loader and needed.name == self.system.loader:
            needed.name = name  # the first name that a file uses for it
        self.asked.add(name)
        return needed

    def _wanted(self, name: str, asker: Needed, *, is_optional: bool) -> Needed | None:
        known = self.known.get(name)
        if known is not None:
            return known
        expanded: str | None = name
        if "$" in name and not self.system.is_musl:
            expanded = paths.expand(name, _values(self.system, asker))
        path, library = ("", None) if expanded is None else self._find(expanded, asker)
        if isinstance(library, Library):
            if (
                library.stamp is not None
                and (same := self._files.get(library.stamp[:2])) is not None
            ):
                self.known[name] = same
                return same
            new = Needed(name, path, asker, library, "")
            self._enter(new)
            return new
        if is_optional:
            return None
        new = Needed(name, path, asker, None, library.why if library is not None else "not found")
        self.known[name] = new
        self.missing.append(new)
        return new

    def _enter(self, new: Needed, *, is_named: bool = True) -> None:
        """Record the names by which a later search finds this file again."""
        library = new.library
        assert library is not None
        if library.stamp is not None:
            self._files.setdefault(library.stamp[:2], new)
        if is_named:
            self.known.setdefault(new.name, new)
        if self.system.is_musl:
            return
        if is_named:
            self.known.setdefault(self.system.root.inner(new.path), new)
        if library.soname is not None:
            self.known.setdefault(library.soname, new)

    def _enter_loader(self, *, named: bool) -> None:
        """Record the loader, which is loaded before any library, whichever file needs it."""
        system = self.system
        path = system.loader_path
        library = system.open(path) if system.loader else None
        if isinstance(library, Library):
            loader = self._loader = Needed(system.loader, path, self.program, library, "")
            self._enter(loader)
        elif named:
            why = library.why if library is not None else "not found"
            loader = Needed(system.loader, path, self.program, None, why)
        else:
            return
        if named:
            self.loader = loader

    # ---- one name ----

    def _find(self, name: str, asker: Needed) -> tuple[str, Found]:
        """Return path and file for `name`, which `asker` needs; ("", None) if there is none."""
        system = self.system
        if system.is_musl and name.startswith(_MUSL_ITSELF):
            return system.loader_path, system.open(system.loader_path)
        if "/" in name:
            path = system.root.host(name)
            return path, system.open(path)
        assert asker.library is not None
        before, behind = self.folders_of(asker)
        if asker.library.avoids_defaults and not system.is_musl:
            cached = system.cached(name)
            if cached is not None and self._is_default(cached):
                cached = None
            folders = (*before, *system.library_folders, *behind)
            return system.first(name, folders, cached, ())
        if not before and not behind:
            return system.plain(name)
        return system.first(
            name,
            (*before, *system.library_folders, *behind),
            system.cached(name),
            system.default,
        )

    def every(self, name: str, asker: Needed) -> Iterator[Library]:
        """Yield the files that the loader might take for `name`, in its order."""
        if "/" in name or asker.library is None:
            return
        system = self.system
        before, behind = self.folders_of(asker)
        folders = (*before, *system.library_folders, *behind)
        for place in system.places(name, folders, system.cached(name), system.default):
            library = system.open(place)
            if isinstance(library, Library):
                yield library

    def folders_of(self, asker: Needed) -> tuple[list[str], list[str]]:
        """Return the folders searched before those in LD_LIBRARY_PATH, and those behind."""
        if self.system.is_musl:
            behind: list[str] = []
            at: Needed | None = asker
            while at is not None:
                behind += self._rpath(at)
                at = at.by
            return [], behind
        assert asker.library is not None
        before: list[str] = []
        if asker.library.runpath is None:
            at = asker
            while at is not None:  # from this file through those that need it to the program
                before += self._rpath(at)
                at = at.by
        return before, self._runpath(asker)

    def _rpath(self, needed: Needed) -> list[str]:
        if needed.rpath is None:
            library = needed.library
            text = None if library is None else library.rpath
            if self.system.is_musl and library is not None and library.runpath is not None:
                text = library.runpath
            needed.rpath = self._split(needed, text)
        return needed.rpath

    def _runpath(self, needed: Needed) -> list[str]:
        if needed.runpath is None:
            needed.runpath = self._split(
                needed, None if needed.library is None else needed.library.runpath
            )
        return needed.runpath

    def _split(self, needed: Needed, text: str | None) -> list[str]:
        if not text:
            return []
        root = self.system.root
        if self.system.is_musl:
            listed = paths.musl_folders(text, _origin(root, needed))
        else:
            listed = paths.folders(text, _values(self.system, needed))
        return [_here(root, needed.path, *folder) for folder in listed]

    def _is_default(self, path: str) -> bool:
        return any(path.startswith(folder + "/") for folder in self.system.default)

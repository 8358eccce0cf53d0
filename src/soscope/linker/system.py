# SPDX-License-Identifier: Apache-2.0
"""The libraries of one system, as one of its loaders finds them, without any program.

Data that were read once serve all programs of the same kind. Before each program, a check finds
out whether folders and files have changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from soscope.binfmt.elf.symbols.lookup import Name
from soscope.errors import FormatError
from soscope.linker import cache, loaderfile, processor
from soscope.linker.library import Library, RefusedFile, Stamp, open_image, stamp_of
from soscope.linker.machine import Kind, machine_of
from soscope.linker.openfile import demand_files, read_regular
from soscope.linker.paths import Root

_MUSL_FOLDERS = ["/lib", "/usr/local/lib", "/usr/lib"]
_WITHOUT_LEGACY = (2, 37)
_MAX_LIBRARIES = 8192
_MAX_NAMES = 1 << 17
_MAX_PATHS = 1 << 16

Found = Library | RefusedFile | None


class System:
    """What a loader finds by itself: in the cache, in LD_LIBRARY_PATH, in default folders.

    `loader` is its path as the target sees it, "" for the usual loader. `library_folders` are
    those of LD_LIBRARY_PATH, as paths of this system. `default` are its default folders, `lib`
    and `platform` its values of $LIB and $PLATFORM.
    """

    def __init__(
        self, root: Root, kind: Kind, flags: int, loader: str, library_folders: tuple[str, ...]
    ) -> None:
        self.root = root
        self.kind = kind
        self.library_folders = library_folders
        self._flags = flags
        self._machine = machine_of(kind, flags)
        self.is_musl = os.path.basename(loader).startswith("ld-musl")
        self.loader = loader or self._machine.loader
        self.loader_path = root.host(self.loader)
        self.lib = ""
        self.platform = processor.platform(kind, flags)
        self._legacy: tuple[str, ...] = ()
        self.default = [
            root.host(folder) for folder in (self._musl() if self.is_musl else self._glibc())
        ]
        self.words: dict[str, Name] = {}
        self._hwcaps = () if self.is_musl else processor.hwcaps(kind)
        self._builds = [cache.HWCAPS.strip("/") + "/" + name for name in self._hwcaps]
        self._builds += self._legacy
        self._tops = frozenset(name.partition("/")[0] for name in self._builds)
        self._folders: dict[str, tuple[Stamp, list[str]]] = {}
        self._cache: dict[str, str] | None = None
        self._files: dict[str, tuple[Stamp, Found]] = {}
        self._plain: dict[str, tuple[str, Found]] = {}
        self.state: list[Stamp | None] = []  # of the folders, at the last search

    # ---- the folders ----

    def _glibc(self) -> list[str]:
        built = loaderfile.read(self.loader_path)
        if built is not None and built.version < _WITHOUT_LEGACY:
            self._legacy = processor.legacy(self.kind, self._flags)
        if built is not None and built.folders:
            self.lib = built.lib
            return built.folders
        machine = self._machine
        triplet = machine.triplet
        if triplet and os.path.isdir(self.root.host(f"/usr/lib/{triplet}")):
            self.lib = f"lib/{triplet}"
        else:
            self.lib = machine.lib
        folders = [f"/{self.lib}", f"/usr/{self.lib}", "/lib", "/usr/lib"]
        return list(dict.fromkeys(folders))

    def _musl(self) -> list[str]:
        arch = os.path.basename(self.loader).removeprefix("ld-musl-").partition(".")[0]
        data = read_regular(self.root.host(f"/etc/ld-musl-{arch}.path"), _MAX_PATHS)
        if data is None:
            return _MUSL_FOLDERS
        text = os.fsdecode(data)
        return [folder for folder in text.replace("\n", ":").split(":") if folder]

    def with_builds(self, folder: str) -> list[str]:
        """Return the subfolders with builds for this processor, and the folder itself.

        The list is empty if there is no such folder.
        """
        folder = self.root.resolve(folder)
        stamp = _stamp(folder)
        if stamp is None:
            return []
        known = self._folders.get(folder)
        if known is None or known[0] != stamp:
            listed = [folder]
            if any(os.path.isdir(f"{folder}/{name}") for name in self._tops):
                builds = (f"{folder}/{name}" for name in self._builds)
                listed = [*filter(os.path.isdir, builds), folder]
            if len(self._folders) > _MAX_NAMES:
                self._folders.clear()
            known = self._folders[folder] = stamp, listed
        return known[1]

    def cached(self, name: str) -> str | None:
        """Return the path of `name` in ld.so.cache, as a path of this system, or None."""
        if self.is_musl:
            return None
        if self._cache is None:
            self._cache = cache.read(
                self.root.host(cache.PATH),
                ids=self._machine.ids,
                order=self.kind.order,
                hwcaps=self._hwcaps,
                legacy=frozenset("/".join(self._legacy).split("/")),
            )
        path = self._cache.get(name)
        return None if path is None else self.root.prefix + path

    # ---- files ----

    def open(self, path: str) -> Found:
        """Open the file at `path`, None if there is none.

        Raises OSError if too many files are open, because then it is not known whether the file
        exists.
        """
        try:
            path = self.root.resolve(path)
            stamp = stamp_of(os.stat(path))
        except (OSError, ValueError):
            return None
        known = self._files.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        if len(self._files) > _MAX_LIBRARIES:
            self._files.clear()
        library = self._opened(path, stamp)
        self._files[path] = stamp, library
        return library

    def _opened(self, path: str, stamp: Stamp) -> Found:
        # _dl_map_object_from_fd and open_verify (elf/dl-load.c)
        try:
            image = open_image(path)
            library = Library(path, image, stamp)
            library.rest()
        except FormatError as error:
            return RefusedFile(str(error), is_final=True)
        except OSError as error:
            demand_files(error)
            return RefusedFile((error.strerror or "").lower(), is_final=False)
        if library.kind == self.kind:
            reason = None if self.is_musl else library.reason_not_loaded
            return library if reason is None else RefusedFile(reason, is_final=True)
        has, wants = library.kind, self.kind
        is_final = self.is_musl or (has.bits == wants.bits and has.order != wants.order)
        return RefusedFile("for another kind of machine", is_final=is_final)

    def plain(self, name: str) -> tuple[str, Found]:
        """Return path and file for a name, without any DT_RPATH or DT_RUNPATH."""
        known = self._plain.get(name)
        if known is None:
            known = self.first(name, self.library_folders, self.cached(name), tuple(self.default))
            if len(self._plain) > _MAX_NAMES:
                self._plain.clear()
            self._plain[name] = known
            return known
        if not isinstance(known[1], Library):
            return known
        return known[0], self.open(known[0])  # it may have changed

    def first(
        self, name: str, folders: Iterable[str], path: str | None, last: Iterable[str]
    ) -> tuple[str, Found]:
        """Return path and file of the first `name` in `folders`, at `path`, in folders `last`."""
        wrong: tuple[str, Found] | None = None
        for place in self.places(name, folders, path, last):
            library = self.open(place)
            if isinstance(library, Library):
                return place, library
            if library is not None:
                wrong = wrong or (place, library)
                if library.is_final:
                    return place, library
        return wrong or ("", None)

    def places(
        self, name: str, folders: Iterable[str], path: str | None, last: Iterable[str]
    ) -> Iterator[str]:
        """Yield the paths that the loader tries for a name, in order, even if there is no file."""
        for folder in folders:
            for build in self.with_builds(folder):
                yield f"{build}/{name}"
        if path is not None:
            yield path
        for folder in last:
            for build in self.with_builds(folder):
                yield f"{build}/{name}"

    # ---- changes ----

    def refresh(self) -> None:
        """Forget results if a folder or the cache has changed."""
        state: list[Stamp | None] = []
        for folder in (*self.library_folders, *self.default):
            state.append(_stamp(folder))
            state += [_stamp(build) for build in self.with_builds(folder)[:-1]]
        if not self.is_musl:
            state.append(_stamp(self.root.host(cache.PATH)))
        if state != self.state:
            self.state = state
            self._plain.clear()
            self._cache = None

    def word(self, name: str) -> Name:
        """Return `name` prepared for look-ups."""
        word = self.words.get(name)
        if word is None:
            if len(self.words) > _MAX_NAMES:
                self.words.clear()
            word = self.words[name] = Name(os.fsencode(name))
        return word


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None

# SPDX-License-Identifier: Apache-2.0
"""Which files a loader would map for a program, without running any of it.

ld.so(8): DT_RPATH of the image and of those that wanted it, LD_LIBRARY_PATH, DT_RUNPATH,
ld.so.cache, the default folders. musl's: the same without a cache, with the folders of
/etc/ld-musl-ARCH.path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import FileSource
from soscope.errors import FormatError
from soscope.linker import cache

_DEFAULT = {
    64: ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"),
    32: ("/lib/i386-linux-gnu", "/usr/lib/i386-linux-gnu", "/lib32", "/usr/lib32"),
}
_ANY = ("/lib", "/usr/lib")
_MUSL = ("/lib", "/usr/local/lib", "/usr/lib")
_MAX_IMAGES = 4096
# ldso/dynlink.c, load_library: musl's loader is these itself
_MUSL_ITSELF = tuple(f"lib{name}." for name in ("c", "pthread", "rt", "m", "dl", "util", "xnet"))
_DF_1_NODEFLIB = 0x800


class Needed:
    """One file of a program: the program itself, its loader, or a library.

    `name` is what was asked for, `by` the index of who asked (-1 for the program), `path` ""
    where nothing was found. `image` is None where it cannot be read; `why` says why not.
    """

    __slots__ = ("by", "image", "name", "path", "why")

    def __init__(self, name: str, path: str, by: int, image: ElfImage | None, why: str) -> None:
        self.name = name
        self.path = path
        self.by = by
        self.image = image
        self.why = why


class OwnedFile(FileSource):
    """A file that is closed when nobody reads it any more."""

    __slots__ = ()

    def __del__(self) -> None:
        """Close it."""
        os.close(self._descriptor)


def open_image(path: str) -> ElfImage:
    """Open the ELF file at `path` for reading; never waits for a device or a pipe.

    Raises OSError, FormatError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    source = OwnedFile(descriptor, path)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise FormatError(f"{path}: not a regular file", field="file")
    if not found.st_size:
        raise FormatError(f"{path}: an empty file", field="e_ident", offset=0)
    return ElfImage.from_source(source)


def closure(program: ElfImage, path: str, library_path: str = "") -> list[Needed]:
    """Return the program, its loader and all libraries, breadth first as a loader maps them.

    `library_path` is LD_LIBRARY_PATH. What is not found is in the list, without a path.
    """
    loader = program.interpreter
    found = [Needed(path, path, -1, program, "")]
    known = {os.path.basename(path): 0}
    search = _Search(program, loader or "", library_path)
    if loader is not None:
        known[os.path.basename(loader)] = 1
        found.append(_opened(loader, loader, 0, search.encoding_of(program)))
    for index, one in enumerate(found):  # which grows
        if one.image is None or (loader is not None and index == 1):
            continue
        for name in _needed(one.image):
            key = os.path.basename(name)
            if key in known or len(found) >= _MAX_IMAGES:
                continue
            known[key] = len(found)
            new = search.find(name, index, found)
            same = next((at for at, old in enumerate(found) if _same(old.path, new.path)), None)
            if same is None:
                found.append(new)
    return found


def _needed(image: ElfImage) -> list[str]:
    try:
        return image.needed
    except FormatError:
        return []


def _same(one: str, other: str) -> bool:
    if not one or not other:
        return False
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def _opened(name: str, path: str, by: int, kind: tuple[int, int]) -> Needed:
    try:
        image = open_image(path)
    except FormatError as error:
        return Needed(name, path, by, None, str(error))
    except OSError as error:
        return Needed(name, path, by, None, (error.strerror or "").lower())
    if _Search.encoding_of(image) != kind:
        return Needed(name, path, by, None, "for another kind of machine")
    return Needed(name, path, by, image, "")


class _Search:
    """Finds libraries by name, for one program."""

    def __init__(self, program: ElfImage, loader: str, library_path: str) -> None:
        self._kind = self.encoding_of(program)
        self._loader = loader
        self._is_musl = os.path.basename(loader).startswith("ld-musl")
        self._library_path = [one or "." for one in library_path.replace(";", ":").split(":")]
        if not library_path:
            self._library_path = []
        bits, machine = self._kind
        self._cache = {} if self._is_musl else cache.read(bits=bits, machine=machine)
        self._default = (
            self._musl_folders(loader)
            if self._is_musl
            else (
                *_DEFAULT.get(bits, ()),
                *_ANY,
            )
        )

    @staticmethod
    def encoding_of(image: ElfImage) -> tuple[int, int]:
        """Return (bits, machine)."""
        return image.encoding.bits, image.header.machine if image.header else 0

    @staticmethod
    def _musl_folders(loader: str) -> tuple[str, ...]:
        arch = os.path.basename(loader).removeprefix("ld-musl-").partition(".")[0]
        try:
            with open(f"/etc/ld-musl-{arch}.path", encoding="utf-8") as file:
                return tuple(file.read().replace("\n", ":").strip(":").split(":"))
        except (OSError, UnicodeDecodeError):
            return _MUSL

    def find(self, name: str, by: int, found: list[Needed]) -> Needed:
        """Find `name`, which the image `found[by]` needs."""
        if self._is_musl and name.startswith(_MUSL_ITSELF):
            return _opened(name, self._loader, by, self._kind)
        if "/" in name:
            return _opened(name, name, by, self._kind)
        wrong = None
        for path in self._places(name, by, found):
            if not os.path.exists(path):
                continue
            one = _opened(name, path, by, self._kind)
            if one.image is not None:
                return one
            wrong = wrong or one  # a loader goes on looking
        return wrong or Needed(name, "", by, None, "not found")

    def _places(self, name: str, by: int, found: list[Needed]) -> Iterator[str]:
        image = found[by].image
        assert image is not None
        runpath = _path_of(image, c.DT_RUNPATH, found[by].path)
        folders: list[str] = []
        if not runpath or self._is_musl:
            at = by
            while at >= 0:  # who asked, who asked for that, and so on up to the program
                one = found[at]
                if one.image is not None and one.image.dynamic.get(c.DT_RUNPATH) is None:
                    folders += _path_of(one.image, c.DT_RPATH, one.path)
                at = one.by
        folders += self._library_path
        folders += runpath
        yield from (os.path.join(folder, name) for folder in folders)
        if not (image.dynamic.get(c.DT_FLAGS_1) or 0) & _DF_1_NODEFLIB:
            if name in self._cache:
                yield self._cache[name]
            yield from (os.path.join(folder, name) for folder in self._default)


def _path_of(image: ElfImage, tag: int, path: str) -> list[str]:
    """Return the folders of DT_RPATH or DT_RUNPATH, with $ORIGIN and $LIB replaced."""
    offset = image.dynamic.get(tag)
    if offset is None:
        return []
    try:
        text = image.string(offset, "DT_RUNPATH")
    except FormatError:
        return []
    origin = os.path.dirname(os.path.realpath(path))
    lib = "lib/x86_64-linux-gnu" if os.path.isdir("/lib/x86_64-linux-gnu") else "lib64"
    for name, value in (("ORIGIN", origin), ("LIB", lib), ("PLATFORM", "x86_64")):
        text = text.replace("${" + name + "}", value).replace("$" + name, value)
    return [folder for folder in text.split(":") if folder]

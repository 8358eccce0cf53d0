# SPDX-License-Identifier: Apache-2.0
"""`soscope.Image`: the linking data of a file, for Python programs.

    image = soscope.Image.open("/bin/ls")
    image.slots["malloc"].provider          # "libc.so.6"
    [stub.vaddr for stub in image.slots["free"].stubs]

All data are read when they are asked for, and nothing can be changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import overload

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.source import LONGEST, kind_of
from soscope.errors import AmbiguousError, FormatError, SoscopeError
from soscope.linker.library import OwnedFile, open_image
from soscope.linker.providers import Provider, Providers
from soscope.model import filemap
from soscope.model.filemap import FileMap, Stub, Symbol


class Slot(filemap.FileSlot):
    """A slot of an image: the fields of FileSlot (model/filemap.py), and its provider.

    >>> slot = soscope.Image.open("/bin/true").slots["__libc_start_main"]
    >>> (slot.section, slot.kind, slot.symbol, slot.binding)
    ('.got', 'R_X86_64_GLOB_DAT', '__libc_start_main', 'now')
    >>> (slot.vaddr % 8, slot.stubs, slot.provider)
    (0, (), 'libc.so.6')

    `vaddr` is its link-time address, `offset` its offset in the file, `kind` the name of the
    relocation that fills it (psABI, "Relocation Types") or of the Mach-O record. Looking a
    provider up reads other files: those in DT_NEEDED, in the order of ld.so(8).
    """

    _image: Image

    @classmethod
    def of(cls, image: Image, slot: filemap.FileSlot) -> Slot:
        """Make the slot of an image from the slot of its format's reader.

        >>> image = soscope.Image.open("/bin/true")
        >>> soscope.Slot.of(image, image.map.slots[0]) == image.slots[0]
        True
        """
        made = tuple.__new__(cls, slot)
        object.__setattr__(made, "_image", image)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError, because a slot cannot be changed."""
        raise AttributeError(f"a slot cannot be changed: {name}")

    @property
    def provider(self) -> str | None:
        """The library that defines the symbol, as this file names it; None if it is not known."""
        return self._image.provider(self).name

    @property
    def provider_reason(self) -> str | None:
        """Why there is no provider, None if there is one.

        >>> soscope.Image.open("/bin/true").slots["__gmon_start__"].provider_reason
        'weak: may stay undefined'
        """
        return self._image.provider(self).reason


class Slots(Sequence[Slot]):
    """The slots of an image, by rising address or by symbol.

    >>> slots = soscope.Image.open("/bin/true").slots
    >>> slots["abort"] in slots[:]
    True
    """

    __slots__ = ("_by_name", "_image", "_slots")

    def __init__(
        self,
        image: Image,
        slots: tuple[filemap.FileSlot, ...],
        by_name: dict[str, list[filemap.FileSlot]],
    ) -> None:
        """Only an Image makes this; `by_name` is filled on first use."""
        self._image = image
        self._slots = slots
        self._by_name = by_name

    @overload
    def __getitem__(self, key: int | str) -> Slot: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Slot, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Slot | tuple[Slot, ...]:
        """Return a slot by its index, or the only slot of a symbol.

        Raises IndexError, KeyError; AmbiguousError if the symbol has several slots.
        """
        if isinstance(key, slice):
            return tuple(Slot.of(self._image, slot) for slot in self._slots[key])
        if isinstance(key, int):
            return Slot.of(self._image, self._slots[key])
        slots = self.named(key)
        if not slots:
            raise KeyError(key)
        if len(slots) > 1:
            places = ", ".join(hex(slot.vaddr) for slot in slots)
            raise AmbiguousError(
                f"{key}: {len(slots)} slots in {self._image.path}: {places}", slots
            )
        return slots[0]

    def named(self, symbol: str) -> tuple[Slot, ...]:
        """Return all slots of a symbol, NAME or NAME@VERSION; there may be none.

        >>> slots = soscope.Image.open("/bin/true").slots
        >>> [len(slots.named(name)) for name in ("abort", "abort@GLIBC_2.2.5", "nobody")]
        [1, 1, 0]
        """
        if not self._by_name:
            for slot in self._slots:
                self._by_name.setdefault(slot.symbol, []).append(slot)
        slots = self._by_name.get(symbol)
        if slots is None:
            name, _, version = symbol.partition("@")
            version = version.removeprefix("@")
            slots = [slot for slot in self._by_name.get(name, ()) if slot.version == version]
        return tuple(Slot.of(self._image, slot) for slot in slots)

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        """Yield the slots one by one."""
        return map(partial(Slot.of, self._image), self._slots)

    def __repr__(self) -> str:
        """Show the number of slots, and the file."""
        return f"<{len(self)} slots of {self._image.path}>"


class Image:
    """One ELF or Mach-O image in a file.

    >>> image = soscope.Image.open("/bin/true")
    >>> image
    <Image /bin/true (x86-64)>
    >>> (image.format, image.arch, image.bits, image.endian, image.kind, image.name)
    ('elf', 'x86-64', 64, 'little', 'pie', 'true')
    >>> (image.path, image.needed, len(image.build_id), image.partial, image.damaged)
    ('/bin/true', ('libc.so.6',), 40, (), ())
    >>> slot = image.slots["abort"]
    >>> (slot.provider, slot.stubs[0] in image.stubs, image.stubs_without_slot)
    ('libc.so.6', True, ())
    >>> (image.is_slice, image.slices == (image,))
    (False, True)

    All data are read when they are asked for. Damaged data are no error then, but reported in
    `partial`. Addresses are link-time addresses (`vaddr`), as in the ELF specification, the
    processor's psABI and <mach-o/loader.h>.

    A fat file has several images, in `slices`. Then everything that only a single image can tell
    raises AmbiguousError.
    """

    _path: str
    _maps: list[FileMap]
    _sysroot: str
    _library_path: str
    _files: tuple[OwnedFile, ...]
    _is_slice: bool
    _damaged: tuple[str, ...]

    def __init__(
        self,
        path: str,
        maps: list[FileMap],
        sysroot: str,
        library_path: str,
        files: tuple[OwnedFile, ...],
        *,
        is_slice: bool = False,
        damaged: tuple[str, ...] = (),
    ) -> None:
        """Only `open` makes this."""
        vars(self).update(
            _path=path,
            _is_slice=is_slice,
            _damaged=damaged,
            _maps=maps,
            _sysroot=sysroot,
            _library_path=library_path,
            _files=files,
        )

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError, because an image cannot be changed."""
        raise AttributeError(f"an image cannot be changed: {name}")

    def __delattr__(self, name: str) -> None:
        """Raise AttributeError, because an image cannot be changed."""
        raise AttributeError(f"an image cannot be changed: {name}")

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        arch: str | None = None,
        *,
        sysroot: str = "",
        library_path: str | None = None,
        embedded: bool = False,
    ) -> Image:
        """Open the image in the file at `path`; of a fat file only the slice for `arch`.

        >>> soscope.Image.open("/bin/true", "arm64")
        Traceback (most recent call last):
        ...
        soscope.errors.SoscopeError: /bin/true: no image for arm64

        With `embedded`, Mach-O images are searched for anywhere in a file of another kind.
        `sysroot` is the folder below which the paths of another system's image begin.
        `library_path` is the LD_LIBRARY_PATH for the search of providers; by default it is that
        of the environment, or none with a `sysroot`. Raises OSError, FormatError, and
        SoscopeError (slug no-such-arch).
        """
        if library_path is None:
            library_path = "" if sysroot else os.environ.get("LD_LIBRARY_PATH", "")
        text = os.fspath(path)
        files: list[OwnedFile] = []
        maps, damaged = _maps(text, files, embedded=embedded)
        if arch is not None:
            chosen = [part for part in maps if part.arch == arch]
            if not chosen:
                raise SoscopeError(
                    f"{text}: no image for {arch}",
                    slug="no-such-arch",
                    hint=f"it has {', '.join(part.arch for part in maps)}",
                )
            maps = chosen
        return cls(text, maps, sysroot, library_path, tuple(files), damaged=damaged)

    def __repr__(self) -> str:
        """Show path and architecture."""
        return f"<Image {self._path} ({', '.join(part.arch for part in self._maps)})>"

    @property
    def path(self) -> str:
        """The path as it was given.

        The path of an archive's member has the member's name in brackets behind it. The path of
        an image within another file has its offset.
        """
        return self._maps[0].label(self._path) if len(self._maps) == 1 else self._path

    @property
    def slices(self) -> tuple[Image, ...]:
        """The images in the file: this one, or all of a fat file."""
        return (self,) if len(self._maps) == 1 else self._parts

    @cached_property
    def _parts(self) -> tuple[Image, ...]:
        return tuple(
            Image(self._path, [part], self._sysroot, self._library_path, self._files, is_slice=True)
            for part in self._maps
        )

    def close(self) -> None:
        """Close its file; a later read opens it again, if it is still the same file.

        >>> image = soscope.Image.open("/bin/true")
        >>> image.close()
        >>> image.needed
        ('libc.so.6',)
        """
        for file in self._files:
            file.rest()

    @property
    def is_slice(self) -> bool:
        """Return whether it is one of several images in its file."""
        return self._is_slice

    @property
    def damaged(self) -> tuple[str, ...]:
        """Messages about other images of the file that cannot be read at all."""
        return self._damaged

    @property
    def map(self) -> FileMap:
        """The reader of its format: a FileMap of model/filemap.py.

        Raises AmbiguousError for a fat file.

        >>> soscope.Image.open("/bin/true").map.needed
        ('libc.so.6',)
        """
        if len(self._maps) > 1:
            names = ", ".join(part.arch for part in self._maps)
            raise AmbiguousError(
                f"{self._path}: {len(self._maps)} images ({names}): say which", self.slices
            )
        return self._maps[0]

    @property
    def format(self) -> str:
        """The format: "elf" or "mach-o"."""
        return self._maps[0].format

    @property
    def arch(self) -> str:
        """The architecture, as `soscope map` names it."""
        return self.map.arch

    @property
    def bits(self) -> int:
        """The size of an address, 32 or 64."""
        return self.map.bits

    @property
    def endian(self) -> str:
        """The byte order, "little" or "big"."""
        return self.map.endian

    @property
    def kind(self) -> str:
        """The kind of file, with the values of FileMap in model/filemap.py."""
        return self.map.kind

    @property
    def build_id(self) -> str:
        """The GNU build-id or LC_UUID in hexadecimal, "" if it has none."""
        return self.map.build_id

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the libraries that it needs, in order: DT_NEEDED, or LC_LOAD_DYLIB."""
        return self.map.needed

    @property
    def partial(self) -> tuple[str, ...]:
        """Reasons why requested parts could not be read so far."""
        return tuple(self.map.partial)

    @property
    def slots(self) -> Slots:
        """The slots of the image, by rising address or by symbol.

        >>> slots = soscope.Image.open("/bin/true").slots
        >>> (slots["abort"].symbol, slots["abort"].version)
        ('abort', 'GLIBC_2.2.5')
        >>> slots["nobody"]
        Traceback (most recent call last):
        ...
        KeyError: 'nobody'
        """
        # The slots refer to the image. If they were stored here, its file would stay open until
        # Python collects cycles.
        return Slots(self, self.map.slots, self._by_name)

    @cached_property
    def _by_name(self) -> dict[str, list[filemap.FileSlot]]:
        return {}

    @cached_property
    def stubs(self) -> tuple[Stub, ...]:
        """The stubs by rising address, including stubs that jump through no slot."""
        stubs = [stub for slot in self.map.slots for stub in slot.stubs]
        return tuple(sorted({*stubs, *self.map.stubs_without_slot}))

    @property
    def stubs_without_slot(self) -> tuple[Stub, ...]:
        """The stubs that jump through a word that nothing fills."""
        return self.map.stubs_without_slot

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that a loader sees, in order of their table.

        >>> {one.name: one.library for one in soscope.Image.open("/bin/true").symbols}["abort"]
        'libc.so.6'
        """
        return self.map.symbols

    def provider(self, slot: filemap.FileSlot) -> Provider:
        """Return the library that defines a slot's symbol, or why it is not known.

        >>> image = soscope.Image.open("/bin/true")
        >>> image.provider(image.slots["abort"]).name
        'libc.so.6'
        """
        if not slot.symbol:
            if slot.defined_here:
                return Provider(self.name, self._path, None)
            return Provider(None, None, "no symbol")
        if slot.defined_here:
            return Provider(self.name, self._path, None)
        if slot.library:
            return Provider(slot.library, None, None)
        mapped = self.map
        if not isinstance(mapped, ElfMap):
            return Provider(None, None, mapped.why_no_library(slot))
        return self._providers.find(slot.symbol, slot.version)

    @cached_property
    def name(self) -> str:
        """The name that other files use for it: soname or install name, else the file's name."""
        return self.map.soname or os.path.basename(self._path)

    def where(self, needed: str) -> str | None:
        """Return the file that a loader would map for one of the `needed` names, or None.

        >>> soscope.Image.open("/bin/true").where("libc.so.6").endswith("/libc.so.6")
        True
        """
        return self._providers.where(needed) if isinstance(self.map, ElfMap) else None

    @cached_property
    def _providers(self) -> Providers:
        mapped = self.map
        assert isinstance(mapped, ElfMap)
        return Providers(
            mapped.image, self._path, sysroot=self._sysroot, library_path=self._library_path
        )


def _maps(
    path: str, files: list[OwnedFile], *, embedded: bool
) -> tuple[list[FileMap], tuple[str, ...]]:
    """Return the images in a file, and messages about damaged ones; add the open files to `files`.

    Raises OSError, FormatError if there is no image.
    """
    maps: list[FileMap] = []
    try:
        image = open_image(path)
        assert isinstance(image.source, OwnedFile)
        files.append(image.source)
        maps.append(ElfMap(image))
    except FormatError as error:
        if error.field != "e_ident":
            raise
    else:
        if not embedded:
            return maps, ()

    from soscope.binfmt.macho import fat
    from soscope.binfmt.macho.filemap import read_map

    source = OwnedFile(path)
    files.append(source)
    parts: list[fat.Slice] = []
    damaged: list[str] = []
    if not maps and (fat.is_macho(source) or source.read(0, 8) == fat.ARCHIVE):
        parts, damaged = fat.images(source)
    if embedded:
        own = {part.offset for part in parts}
        hidden = fat.hidden(source)
        parts += [part for part in hidden.slices if part.offset not in own]
        damaged = list(dict.fromkeys([*damaged, *hidden.damaged]))
    if not parts and not maps:
        what = "no image in it" if embedded else "neither an ELF nor a Mach-O file"
        begin = source.read(0, LONGEST)
        kind, hint = kind_of(begin, path)
        if begin == fat.ARCHIVE:
            what = "an archive without a Mach-O image"
        elif hint and not embedded:
            what = f"{kind}, {what}"
        raise FormatError(
            f"{path}: magic at offset 0x0: {what}", field="magic", offset=0, hint=hint
        )
    for part in parts:
        try:
            maps.append(read_map(source, part))
        except FormatError as error:
            if len(parts) == 1 and not maps:
                raise
            damaged.append(str(error))
    if not maps:
        raise FormatError(damaged[0], field="magic", offset=parts[0].offset)
    return maps, tuple(damaged)

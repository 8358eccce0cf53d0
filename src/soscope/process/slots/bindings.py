# SPDX-License-Identifier: Apache-2.0
"""What every slot of a process leads to now, and what the loader would have written there.

    unbound     waits for the loader: it leads into its own image's stubs
    bound       leads where the loader's look-up leads
    interposed  the same, and that is not what the importer's DT_NEEDED would give: something
                that the loader met earlier defines it, too (LD_PRELOAD, the program itself)
    hooked      leads somewhere else: somebody has changed the slot, or re-aimed the code
                that goes through it

Copy relocations and a program's own stubs that stand for a function are how programs are
linked, and symbols that no DT_NEEDED promised have nobody to be taken from: simply bound. A
weak symbol that nobody defines is bound to nothing.

The look-up is the loader's for relocations (glibc's _dl_lookup_symbol_x and check_match, which
differ from dlsym's: an unversioned import takes a definition of the oldest version, a stub of
the program is no definition for a call), over the scope that the loader keeps for the image.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.slots import (
    R_X86_64_COPY,
    R_X86_64_IRELATIVE,
    R_X86_64_JUMP_SLOT,
    SlotRelocation,
    relocations_of,
    slot_relocations,
)
from soscope.binfmt.stubs.x86 import is_lazy
from soscope.errors import FormatError
from soscope.process.images.images import Images
from soscope.process.images.loadedimage import LoadedImage
from soscope.process.lookup.ownscope import own_scope, promised
from soscope.process.lookup.scope import is_musl
from soscope.process.tables.symtab import SymbolRows

UNBOUND = "unbound"
BOUND = "bound"
INTERPOSED = "interposed"
HOOKED = "hooked"

_MOST_AT_ONCE = 1 << 24  # bytes of slots read with one call
_MOST_TEXT = 16

Found = tuple[LoadedImage, int]  # an image, and an index into its symbols


class Binding:
    """One slot as it is now.

    `importer` is the image that has it, at run-time address `addr`; `value` is what it holds.
    `to_image` is the image that the calls end in, None where that is none; `expected` the one
    that the look-up leads to (for an interposed slot: the one that DT_NEEDED would give).
    `target` is where calls go: `value`, or what re-aimed code finds in its stead. `sites` are
    the addresses of the displacements that were re-aimed.
    """

    __slots__ = (
        "addr",
        "expected",
        "expected_addr",
        "importer",
        "relocation",
        "sites",
        "state",
        "symbol",
        "target",
        "to_image",
        "to_symbol",
        "value",
        "version",
    )

    def __init__(
        self,
        importer: LoadedImage,
        relocation: SlotRelocation,
        symbol: str,
        version: str | None,
        value: int,
    ) -> None:
        self.importer = importer
        self.relocation = relocation
        self.addr = relocation.vaddr + importer.load_bias
        self.symbol = symbol
        self.version = version
        self.value = self.target = value
        self.state = BOUND
        self.to_image: LoadedImage | None = None
        self.to_symbol: str | None = None
        self.expected: LoadedImage | None = None
        self.expected_addr: int | None = None
        self.sites: list[int] = []

    @property
    def is_call(self) -> bool:
        """Say whether the slot serves calls through a stub of the linker's."""
        return self.relocation.type == R_X86_64_JUMP_SLOT


class Bindings:
    """The slots of a process: what its loader wrote, and what is there.

    `by_image` has those of each image, in the order of the relocations; `damaged` names the
    images whose tables cannot be read, or not all of them. `scope_is_guessed` says that the
    loader's own list was not found for an image that matters.
    """

    def __init__(self, images: Images) -> None:
        self.images = images
        self.by_image: dict[LoadedImage, list[Binding]] = {}
        self.damaged: dict[LoadedImage, str] = {}
        self.scope_is_guessed = False
        self._musl = is_musl(images)
        self._tables: dict[LoadedImage, SymbolRows] = {}
        self._defined: dict[bytes, list[Found]] = {}
        self._orders: dict[tuple[LoadedImage, bool], dict[LoadedImage, int]] = {}
        self._same: dict[tuple[int, ...], dict[LoadedImage, int]] = {}
        self._answers: dict[tuple[int, bytes, str | None, bool], Found | None] = {}
        self._addresses: dict[LoadedImage, dict[int, bytes]] = {}
        self._copied: set[int] = set()
        self._ifuncs: dict[LoadedImage, dict[int, int]] = {}
        # the loader has an entry in every namespace: the first one counts
        self._first: dict[int, LoadedImage] = {}
        self._read_all()

    # ---- reading ----

    def _read_all(self) -> None:
        raw: dict[LoadedImage, list[SlotRelocation]] = {}
        wanted: set[bytes] = set()
        for image in self.images.all:
            if not image.dynamic or image.is_vdso or image.dynamic in self._first:
                continue
            self._first[image.dynamic] = image
            try:
                table = SymbolRows(image)
                found = self._relocations(image)
            except FormatError as error:
                self.damaged[image] = str(error)
                continue
            self._tables[image] = table
            raw[image] = [one for one in found if one.symbol < len(table.rows)]
            wanted.update(table.name(one.symbol) for one in raw[image])
        wanted.discard(b"")
        for image in [*self._tables, *self._vdso()]:
            for name, index in self._tables[image].definitions(wanted):
                self._defined.setdefault(name, []).append((image, index))
        self._note_copies()
        for image, slots in raw.items():
            try:
                self.by_image[image] = self._bind(image, slots)
            except FormatError as error:
                self.damaged[image] = str(error)

    def _vdso(self) -> list[LoadedImage]:
        """Return the vDSO, whose symbols are definitions, too."""
        found = []
        for image in self.images.all:
            if image.is_vdso and image not in self._tables:
                try:
                    self._tables[image] = SymbolRows(image)
                except FormatError:
                    continue  # it defines nothing that can be read
                found.append(image)
        return found

    def _relocations(self, image: LoadedImage) -> list[SlotRelocation]:
        """Return an image's slots. An agent aims relocations elsewhere: then the file knows."""
        found = list(slot_relocations(image.elf))
        places = [(low - image.load_bias, high - image.load_bias) for low, high in image.ranges]
        aimed = {one for one in found if not any(low <= one.vaddr < high for low, high in places)}
        if not aimed:
            return found
        file = image.file
        if file is not None:
            told = list(slot_relocations(file.elf))
            if len(told) == len(found):
                return [
                    other if one in aimed else one for one, other in zip(found, told, strict=True)
                ]
        self.damaged[image] = (
            f"relocations that name no slot of it: {len(aimed)}, and its file is gone"
        )
        return [one for one in found if one not in aimed]

    def _note_copies(self) -> None:
        """Note what the program holds copies of: data of libraries, by COPY relocations."""
        main = self.images.main
        if main not in self._tables:
            return
        for one in relocations_of(main.elf, R_X86_64_COPY):
            self._copied.add(one.vaddr + main.load_bias)  # several names may be its

    def _bind(self, image: LoadedImage, slots: list[SlotRelocation]) -> list[Binding]:
        table = self._tables[image]
        values = _words(image, [one.vaddr + image.load_bias for one in slots])
        found = []
        for relocation, value in zip(slots, values, strict=True):
            name = table.name(relocation.symbol)
            if not name or value is None:
                continue
            version = table.version(relocation.symbol)
            binding = Binding(image, relocation, _text(name), version, value)
            self._judge(binding, name)
            found.append(binding)
        return found

    # ---- the loader's look-up ----

    def winner(
        self, image: LoadedImage, name: bytes, version: str | None, *, call: bool
    ) -> Found | None:
        """Return the definition that the loader binds an import of `image` to, None if none."""
        return self._find(self._order(image, own=False), name, version, call=call)

    def provider(self, image: LoadedImage, name: bytes, version: str | None) -> Found | None:
        """Return the definition that the image and its DT_NEEDED would give."""
        return self._find(self._order(image, own=True), name, version, call=True)

    def address(self, found: Found) -> int:
        """Return the run-time address of a definition; of an IFUNC that of its resolver."""
        image, index = found
        row = self._tables[image].rows[index]
        return row[4] if row[3] == c.SHN_ABS else row[4] + image.load_bias

    def is_ifunc(self, found: Found) -> bool:
        """Say whether a definition is an IFUNC's resolver."""
        image, index = found
        return self._tables[image].rows[index][1] & 15 == c.STT_GNU_IFUNC

    def images_defining(self, name: bytes) -> list[LoadedImage]:
        """Return the images that define an imported name, stubs of the program not counted."""
        found = dict.fromkeys(
            image
            for image, index in self._defined.get(name, ())
            if self._tables[image].rows[index][3] != c.SHN_UNDEF
        )
        return list(found)

    def _order(self, image: LoadedImage, *, own: bool) -> dict[LoadedImage, int]:
        """Return the place of each image in a list that is looked through."""
        key = image, own
        if key not in self._orders:
            if own:
                listed = promised(self.images, image, musl=self._musl)
            else:
                listed, guessed = own_scope(self.images, image)
                is_loader = image is self.images.loader
                self.scope_is_guessed |= guessed and not self._musl and not is_loader
            listed = [self._first.get(one.dynamic, one) for one in listed]
            same = tuple(map(id, listed))  # most images share one list
            order = {one: place for place, one in reversed(list(enumerate(listed)))}
            self._orders[key] = self._same.setdefault(same, order)
        return self._orders[key]

    def _find(
        self, order: dict[LoadedImage, int], name: bytes, version: str | None, *, call: bool
    ) -> Found | None:
        key = id(order), name, version, call
        if key not in self._answers:
            listed = [one for one in self._defined.get(name, ()) if one[0] in order]
            by_image: dict[LoadedImage, list[int]] = {}
            for image, index in listed:
                by_image.setdefault(image, []).append(index)
            answer = None
            for image in sorted(by_image, key=order.__getitem__):
                chosen = self._choose(image, by_image[image], version, call=call)
                if chosen is not None:
                    answer = image, chosen
                    break
            self._answers[key] = answer
        return self._answers[key]

    def _choose(
        self, image: LoadedImage, indices: list[int], version: str | None, *, call: bool
    ) -> int | None:
        """Return which of the image's symbols of one name the loader takes (check_match)."""
        table = self._tables[image]
        default: list[int] = []
        for index in indices:
            if table.rows[index][3] == c.SHN_UNDEF and (call or not table.rows[index][4]):
                continue  # a program's stub for a function: no definition for a call
            if table.numbers is None:
                return index
            number = table.number(index)
            plain = number & ~c.VERSYM_HIDDEN
            if self._musl:
                if not number & c.VERSYM_HIDDEN:
                    return index
            elif version is not None:
                if table.version(index) == version or (plain < 2 and not number & c.VERSYM_HIDDEN):
                    return index
            elif plain < 3:
                return index
            elif not number & c.VERSYM_HIDDEN:
                default.append(index)
        return default[0] if len(default) == 1 else None

    # ---- judging ----

    def _judge(self, binding: Binding, name: bytes) -> None:
        image, value = binding.importer, binding.value
        found = self.winner(image, name, binding.version, call=binding.is_call)
        if found is not None:
            binding.expected = found[0]
            binding.expected_addr = self.address(found)
        if self.is_unbound(binding):
            binding.state = UNBOUND
            return
        if not value and (found is None or not binding.is_call):
            binding.expected = None  # weak, and nobody defined it when it was looked for
            return
        if found is not None and not self._leads_to(found, value, name):
            found = self._unique(found, value, name)
        if found is None:
            self._is_hooked(binding)
            return
        binding.to_image, binding.to_symbol = found[0], binding.symbol
        if self._tables[found[0]].rows[found[1]][1] >> 4 == c.STB_GNU_UNIQUE:
            binding.expected, binding.expected_addr = found[0], value
            return
        where = self.images.at(value)
        if where is not None and where is not found[0]:  # an IFUNC that chose the vDSO's
            binding.to_image, binding.to_symbol = where, self.symbol_at(where, value)
        if image is self.images.loader and not self._musl:
            return  # it has functions of libc's until that is there
        promise = self.provider(image, name, binding.version)
        if promise is None or promise[0] is found[0]:
            return
        if found[0] is self.images.main and (
            value in self._copied or self._tables[found[0]].rows[found[1]][3] == c.SHN_UNDEF
        ):
            return
        binding.state = INTERPOSED
        binding.expected = promise[0]

    def _is_hooked(self, binding: Binding) -> None:
        binding.state = HOOKED
        where = self.images.at(binding.target)
        binding.to_image = where
        binding.to_symbol = None if where is None else self.symbol_at(where, binding.target)

    def reaimed(self, binding: Binding, target: int, site: int) -> None:
        """Note that code at `site` goes to `target` instead of through the slot."""
        binding.sites.append(site)
        binding.target = target
        self._is_hooked(binding)

    def symbol_at(self, image: LoadedImage, addr: int) -> str | None:
        """Return the name of the symbol that begins at a run-time address, None if none does."""
        if image not in self._addresses:
            table = self._tables.get(image)
            self._addresses[image] = {} if table is None else table.by_address()
        name = self._addresses[image].get(addr - image.load_bias)
        return None if name is None else _text(name)

    def _leads_to(self, found: Found, value: int, name: bytes) -> bool:
        """Say whether `value` is what the loader writes for a definition."""
        image, index = found
        row = self._tables[image].rows[index]
        if row[1] & 15 != c.STT_GNU_IFUNC:
            if value == self.address(found):
                return True
            # another version of the same name, from a time when that was the default
            others = self._defined.get(name, ())
            return any(value == self.address(one) for one in others if one[0] is image)
        where = self.images.at(value)
        if where is not None and (where.is_vdso or where is image) and where.executes(value):
            return True
        return value == self._resolved(image).get(row[4])

    def _unique(self, found: Found, value: int, name: bytes) -> Found | None:
        """Return the definition that `value` is, of a symbol that a namespace has once.

        The first one that was ever asked for counts, in whatever scope (STB_GNU_UNIQUE).
        """
        for one in [found, *self._defined.get(name, ())]:
            image, index = one
            if self._tables[image].rows[index][1] >> 4 != c.STB_GNU_UNIQUE:
                if one is found:
                    break
            elif value == self.address(one) and image.namespace == found[0].namespace:
                return image, index
        return None

    def _resolved(self, image: LoadedImage) -> dict[int, int]:
        """Return resolver -> target of the IFUNCs that the image itself has slots for."""
        if image not in self._ifuncs:
            rows = relocations_of(image.elf, R_X86_64_IRELATIVE)
            values = _words(image, [one.vaddr + image.load_bias for one in rows])
            self._ifuncs[image] = {
                one.addend: value
                for one, value in zip(rows, values, strict=True)
                if value is not None
            }
        return self._ifuncs[image]

    def is_unbound(self, binding: Binding) -> bool:
        """Say whether a slot waits for the loader: what it holds is its own stub's rest."""
        image, value = binding.importer, binding.value
        if not binding.is_call:
            return False
        if not value:
            return binding.expected is not None
        if value != binding.expected_addr and image.executes(value):
            return is_lazy(image.space.read(value, _MOST_TEXT))
        bias = image.load_bias  # not relocated yet: in the middle of dlopen
        return bias > 1 << 20 and value < bias and image.executes(value + bias)


def _words(image: LoadedImage, addrs: list[int]) -> list[int | None]:
    """Return the address-sized words at run-time addresses; None where there is no memory."""
    if not addrs:
        return []
    size = image.space.bits // 8
    low, high = min(addrs), max(addrs) + size
    data = image.space.read(low, high - low) if high - low <= _MOST_AT_ONCE else b""
    found: list[int | None] = []
    for addr in addrs:
        word = data[addr - low : addr - low + size]
        found.append(
            int.from_bytes(word, "little") if len(word) == size else image.space.word(addr)
        )
    return found


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")

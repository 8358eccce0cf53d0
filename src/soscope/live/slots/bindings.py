# SPDX-License-Identifier: Apache-2.0
"""Compare each slot of a process with the loader's look-up of its symbol.

    unbound     not bound yet: it leads into its own image's stubs
    bound       holds the result of the loader's look-up
    interposed  the same, but the importer's DT_NEEDED would give another definition: an image
                that the loader searches earlier defines it, too (LD_PRELOAD, the program itself)
    hooked      leads elsewhere: something has changed the slot, or re-aimed the code that goes
                through it

Copy relocations, and a program's own stubs that serve as a function's address, are normal results
of linking, so such slots are bound. A symbol that no DT_NEEDED provides cannot be interposed, so
it is bound, too. An undefined weak symbol is bound to nothing.

The look-up is the loader's for relocations (glibc's _dl_lookup_symbol_x and check_match) in the
scope that the loader keeps for the image. It differs from dlsym's: an unversioned import takes a
definition of the oldest version, and a stub of the program is no definition for a call.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.lookup import gnu_hash
from soscope.binfmt.elf.slots import SlotRelocation, copies_of, ifuncs_of, slot_relocations
from soscope.binfmt.elf.symboltable import (
    CALL,
    REFERENCE,
    SymbolArray,
    SymbolEntry,
    SymbolTable,
    is_definition,
)
from soscope.binfmt.isa import part
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import AGENT, Images
from soscope.live.images.ownscope import own_scope, promised
from soscope.live.images.scope import is_musl
from soscope.live.images.space import Space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


UNBOUND = "unbound"
BOUND = "bound"
INTERPOSED = "interposed"
HOOKED = "hooked"

_MOST_AT_ONCE = 1 << 24  # bytes of slots in one read
_MOST_TEXT = 16

Found = tuple[LoadedImage, SymbolEntry]  # an image and one of its symbols


class Binding:
    """One slot with its current contents.

    >>> with soscope.Process(pid) as process:
    ...     slot = process.bindings(image="sleep", symbol="__libc_start_main")[0]
    ...     provider = process.locate(slot.value)
    >>> (slot.importer.name, slot.state, slot.to_image.name, provider.symbol)
    ('sleep', 'bound', 'libc.so.6', '__libc_start_main')
    >>> (slot.addr - slot.importer.load_bias == slot.relocation.vaddr, slot.is_call)
    (True, False)

    `importer` is the image with the slot, at run-time address `addr`; `value` is its contents.
    `state` is "unbound", "bound", "interposed" or "hooked". `version` is None if the import has
    none. `is_call` is true for R_X86_64_JUMP_SLOT (x86-64 psABI, "Relocation Types"): code
    compiled with -fno-plt calls through other slots. `to_image` is the image in which calls end,
    None if they end in no image. `expected` is the image that the look-up finds; for an
    interposed slot, the image that DT_NEEDED would give. `target` is where calls go: `value`, or
    the address that re-aimed code uses in its place. `sites` are the addresses of the re-aimed
    displacements.
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
        """Return whether the slot serves calls through a stub of the linker."""
        return self.relocation.is_call


class Bindings:
    """The slots of a process: what the loader wrote, and what they hold now.

    `by_image` has the slots of each image in the order of their relocations, or only those for
    the symbol `only`, if that is given. `damaged` has the images whose tables cannot be read, or
    only in part. `scope_is_guessed` tells that the loader's own list was not found for an image
    with such slots.
    """

    def __init__(self, images: Images, *, only: bytes = b"") -> None:
        self.images = images
        self._only = only
        self.by_image: dict[LoadedImage, list[Binding]] = {}
        self.damaged: dict[LoadedImage, str] = {}
        self.scope_is_guessed = False
        self._musl = is_musl(images)
        self._tables: dict[LoadedImage, SymbolTable] = {}
        self._names: dict[LoadedImage, dict[int, bytes]] = {}  # names of the slots' symbols
        # name -> images that define or import it, with their symbols of that name
        self._defined: dict[bytes, dict[LoadedImage, list[SymbolEntry]]] = {}
        self._orders: dict[tuple[LoadedImage, bool], dict[LoadedImage, int]] = {}
        self._same: dict[tuple[int, ...], dict[LoadedImage, int]] = {}
        self._answers: dict[tuple[int, bytes, str | None, bool], Found | None] = {}
        self._addresses: dict[LoadedImage, dict[int, bytes]] = {}
        self._copied: set[int] = set()
        self._ifuncs: dict[LoadedImage, dict[int, int]] = {}
        # the loader has an entry in every namespace, of which the first counts
        self._first: dict[int, LoadedImage] = {}
        self._read_all()

    # ---- reading ----

    def _read_all(self) -> None:
        raw: dict[LoadedImage, list[SlotRelocation]] = {}
        names: set[bytes] = set()
        for image in self.images.all:
            if not image.dynamic or image.is_vdso or image.dynamic in self._first:
                continue
            self._first[image.dynamic] = image
            try:
                array = image.symbols.array
                relocations = self._relocations(image)
            except FormatError as error:
                self.damaged[image] = str(error)
                continue
            self._tables[image] = image.symbols
            raw[image] = [
                relocation for relocation in relocations if relocation.symbol < len(array)
            ]
            asked = {relocation.symbol for relocation in raw[image]}
            here = {index: array.bytes_at(array.row(index)[0]) or b"" for index in asked}
            if self._only:
                here = {index: name for index, name in here.items() if name == self._only}
                raw[image] = [relocation for relocation in raw[image] if relocation.symbol in here]
            self._names[image] = here
            names.update(here.values())
        wanted: dict[int, list[bytes]] = {}
        for name in names - {b""}:
            wanted.setdefault(gnu_hash(name) | 1, []).append(name + b"\0")
        for image in [*self._tables, *self._vdso()]:
            self._note_definitions(image, wanted)
        self._note_copies()
        for image, slots in raw.items():
            try:
                self.by_image[image] = self._bind(image, slots)
            except FormatError as error:
                self.damaged[image] = str(error)

    def _note_definitions(self, image: LoadedImage, wanted: dict[int, list[bytes]]) -> None:
        try:
            here = self._tables[image].named_all(wanted)
        except FormatError as error:
            self.damaged[image] = str(error)  # the loader would find nothing in it
            return
        for name, entries in here.items():
            self._defined.setdefault(name[:-1], {})[image] = entries

    def _vdso(self) -> list[LoadedImage]:
        """Return the vDSO, as its symbols are definitions, too."""
        images = []
        for image in self.images.all:
            if image.is_vdso and image not in self._tables:
                try:
                    self._tables[image] = image.symbols
                except FormatError:
                    continue  # its definitions cannot be read
                images.append(image)
        return images

    def _relocations(self, image: LoadedImage) -> list[SlotRelocation]:
        """Return an image's slots, from the file if an agent has changed the relocations."""
        if image.arch is None:
            return []  # the relocation types for slots are not known
        relocations = list(slot_relocations(image.elf, image.arch))
        places = [(low - image.load_bias, high - image.load_bias) for low, high in image.ranges]
        aimed = {
            relocation
            for relocation in relocations
            if not any(low <= relocation.vaddr < high for low, high in places)
        }
        if not aimed:
            return relocations
        file = image.file
        if file is not None:
            told = list(slot_relocations(file.elf))
            if len(told) == len(relocations):
                return [
                    other if relocation in aimed else relocation
                    for relocation, other in zip(relocations, told, strict=True)
                ]
        self.damaged[image] = (
            f"relocations that name no slot of it: {len(aimed)}, and its file is gone"
        )
        return [relocation for relocation in relocations if relocation not in aimed]

    def _note_copies(self) -> None:
        """Record the addresses of COPY relocations: the program's copies of library data."""
        main = self.images.main
        if main not in self._tables:
            return
        for copy in copies_of(main.elf, main.arch):
            self._copied.add(copy.vaddr + main.load_bias)  # one copy may have several names

    def _bind(self, image: LoadedImage, slots: list[SlotRelocation]) -> list[Binding]:
        names = self._names[image]
        values = _words(image, [slot.vaddr + image.load_bias for slot in slots])
        entry = part(image.arch, "entry")
        if entry is not None and image.space.bits == 32:
            values = _decoded(image, slots, values, entry)
        versions: dict[int, str | None] = {}
        bindings = []
        for relocation, value in zip(slots, values, strict=True):
            index = relocation.symbol
            name = names[index]
            if not name or value is None:
                continue
            if index not in versions:
                versions[index] = self._version(image, index)
            binding = Binding(image, relocation, _text(name), versions[index], value)
            self._judge(binding, name)
            bindings.append(binding)
        return bindings

    def _version(self, image: LoadedImage, index: int) -> str | None:
        table = self._tables[image]
        return table.version_of(table.entry(index))

    # ---- the loader's look-up ----

    def winner(
        self, image: LoadedImage, name: bytes, version: str | None, *, call: bool
    ) -> Found | None:
        """Return the definition to which the loader binds an import of `image`, or None."""
        return self._find(self._order(image, own=False), name, version, call=call)

    def provider(self, image: LoadedImage, name: bytes, version: str | None) -> Found | None:
        """Return the definition that only the image and its DT_NEEDED would give."""
        return self._find(self._order(image, own=True), name, version, call=True)

    def address(self, definition: Found) -> int:
        """Return the run-time address of a definition; for an IFUNC, of its resolver."""
        image, entry = definition
        is_absolute = entry.section == c.SHN_ABS and not self._musl  # musl adds its bias to all
        return entry.value if is_absolute else entry.value + image.load_bias

    def is_ifunc(self, definition: Found) -> bool:
        """Return whether a definition is an IFUNC."""
        return definition[1].type == c.STT_GNU_IFUNC

    def images_defining(self, name: bytes) -> list[LoadedImage]:
        """Return the images that define an imported name; the program's own stubs do not count."""
        images = [image for image, entry in self._definitions(name) if not entry.is_stub]
        return list(dict.fromkeys(images))

    def _definitions(self, name: bytes) -> list[Found]:
        """Return all definitions of an imported name, of any version."""
        return [
            (image, entry)
            for image, entries in self._defined.get(name, {}).items()
            for entry in entries
            if is_definition(entry, musl=self._musl)
        ]

    def _order(self, image: LoadedImage, *, own: bool) -> dict[LoadedImage, int]:
        """Return the position of each image in the list that the loader searches."""
        key = image, own
        if key not in self._orders:
            if own:
                listed = promised(self.images, image, musl=self._musl)
            else:
                listed, guessed = own_scope(self.images, image)
                is_loader = image is self.images.loader
                self.scope_is_guessed |= guessed and not self._musl and not is_loader
            listed = [self._first.get(member.dynamic, member) for member in listed]
            same = tuple(map(id, listed))  # most images share one list
            order = {member: place for place, member in reversed(list(enumerate(listed)))}
            self._orders[key] = self._same.setdefault(same, order)
        return self._orders[key]

    def _find(
        self, order: dict[LoadedImage, int], name: bytes, version: str | None, *, call: bool
    ) -> Found | None:
        key = id(order), name, version, call
        if key not in self._answers:
            defined, use = self._defined.get(name, {}), CALL if call else REFERENCE
            answer = None
            for image in sorted(defined.keys() & order.keys(), key=order.__getitem__):
                table = self._tables[image]
                chosen = table.choose(defined[image], version, use=use, musl=self._musl)
                if chosen is not None:
                    answer = image, chosen
                    break
            self._answers[key] = answer
        return self._answers[key]

    # ---- states ----

    def _judge(self, binding: Binding, name: bytes) -> None:
        image, value = binding.importer, binding.value
        definition = self.winner(image, name, binding.version, call=binding.is_call)
        if definition is not None:
            binding.expected = definition[0]
            binding.expected_addr = self.address(definition)
        if self.is_unbound(binding):
            binding.state = UNBOUND
            return
        if not value and (definition is None or not binding.is_call):
            binding.expected = None  # weak, and undefined at the time of the look-up
            return
        if definition is not None and not self._leads_to(definition, value, name):
            definition = self._unique(definition, value, name)
        if definition is None:
            self._is_hooked(binding)
            return
        binding.to_image, binding.to_symbol = definition[0], binding.symbol
        if definition[1].binding == c.STB_GNU_UNIQUE:
            binding.expected, binding.expected_addr = definition[0], value
            return
        where = self.images.at(value)
        if where is not None and where is not definition[0]:  # an IFUNC that chose the vDSO
            binding.to_image, binding.to_symbol = where, self.symbol_at(where, value)
        if image is self.images.loader and not self._musl:
            return  # until libc is loaded, the loader uses functions of its own
        promise = self.provider(image, name, binding.version)
        if promise is None or promise[0] is definition[0]:
            return
        if definition[0] is self.images.main and (value in self._copied or definition[1].is_stub):
            return
        binding.state = INTERPOSED
        binding.expected = promise[0]

    def _is_hooked(self, binding: Binding) -> None:
        binding.state = HOOKED
        where = self.images.at(binding.target)
        binding.to_image = where
        binding.to_symbol = None if where is None else self.symbol_at(where, binding.target)

    def reaimed(self, binding: Binding, target: int, site: int) -> None:
        """Record that code at `site` goes to `target`, not through the slot."""
        binding.sites.append(site)
        binding.target = target
        self._is_hooked(binding)

    def symbol_at(self, image: LoadedImage, addr: int) -> str | None:
        """Return the name of the symbol that begins at a run-time address, or None."""
        if image not in self._addresses:
            table = self._tables.get(image)
            self._addresses[image] = {} if table is None else _by_address(table.array)
        name = self._addresses[image].get(addr - image.load_bias)
        return None if name is None else _text(name)

    def _leads_to(self, definition: Found, value: int, name: bytes) -> bool:
        """Return whether `value` is what the loader writes for a definition."""
        image, entry = definition
        if entry.type != c.STT_GNU_IFUNC:
            addr = self.address(definition)
            if value == addr:
                return True
            if image.arch is not None and image.arch.has_descriptors:
                return value == image.space.word(addr)  # the slot is a copy of the descriptor
            # another version of the name, which was the default earlier
            others = self._definitions(name)
            return any(value == self.address(other) for other in others if other[0] is image)
        where = self.images.at(value)
        if where is not None and (where.is_vdso or where is image) and where.executes(value):
            return True
        return value == self._resolved(image).get(entry.value)

    def _unique(self, definition: Found, value: int, name: bytes) -> Found | None:
        """Return the definition at `value`, for a symbol that is unique in a namespace.

        For STB_GNU_UNIQUE, the first definition that any look-up found counts, in every scope.
        """
        for candidate in [definition, *self._definitions(name)]:
            if candidate[1].binding != c.STB_GNU_UNIQUE:
                if candidate is definition:
                    break
            elif (
                value == self.address(candidate)
                and candidate[0].namespace == definition[0].namespace
            ):
                return candidate
        return None

    def _resolved(self, image: LoadedImage) -> dict[int, int]:
        """Return resolver -> target of the IFUNCs for which the image itself has slots."""
        if image not in self._ifuncs:
            rows = ifuncs_of(image.elf, image.arch)
            values = _words(image, [row.vaddr + image.load_bias for row in rows])
            self._ifuncs[image] = {
                row.addend: value
                for row, value in zip(rows, values, strict=True)
                if value is not None
            }
        return self._ifuncs[image]

    def is_unbound(self, binding: Binding) -> bool:
        """Return whether a slot is unbound, so that it still leads to the rest of its own stub."""
        image, value = binding.importer, binding.value
        if not binding.is_call:
            return False
        if not value:
            return bool(binding.expected_addr)
        if value == binding.expected_addr:
            return False  # an absolute value may look like an address before relocation
        if image.executes(value):
            known = part(image.arch, "at")  # without it, its own image means unbound
            return known is None or bool(known.is_lazy(image.space.read(value, _MOST_TEXT)))
        bias = image.load_bias  # not relocated yet, in the middle of dlopen
        return bias > 1 << 20 and value < bias and image.executes(value + bias)


def _decoded(
    image: LoadedImage, slots: list[SlotRelocation], values: list[int | None], entry: ModuleType
) -> list[int | None]:
    """Return the values of slots, but the targets of slots that are code; None if unknown."""
    places = [
        (segment.vaddr, segment.vaddr + segment.memsz)
        for segment in image.elf.segments
        if segment.type == c.PT_LOAD and segment.flags & c.PF_X
    ]
    decoded: list[int | None] = []
    for slot, value in zip(slots, values, strict=True):
        if slot.is_call and any(low <= slot.vaddr < high for low, high in places):
            at = slot.vaddr + image.load_bias
            code = image.space.read(at, entry.SIZE)
            decoded.append(entry.target(code, at, image.space.word))
        else:
            decoded.append(value)
    return decoded


def _words(image: LoadedImage, addrs: list[int]) -> list[int | None]:
    """Return the address-sized words at run-time addresses, None for each that cannot be read."""
    if not addrs:
        return []
    size = image.space.bits // 8
    low, high = min(addrs), max(addrs) + size
    data = image.space.read(low, high - low) if high - low <= _MOST_AT_ONCE else b""
    words: list[int | None] = []
    for addr in addrs:
        word = data[addr - low : addr - low + size]
        words.append(
            int.from_bytes(word, image.space.endian)
            if len(word) == size
            else image.space.word(addr)
        )
    return words


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _by_address(array: SymbolArray) -> dict[int, bytes]:
    """Return link-time address -> name of an image's definitions.

    If several names have the same address, global ones precede others, then names without an
    underscore in front, then the first one. A look-up by address has the same order.
    """
    best: dict[int, tuple[bool, bool, bytes]] = {}
    for at, info, _, section, value, _ in array.rows():
        if value and section != c.SHN_UNDEF and info & 15 != c.STT_TLS:
            name = array.bytes_at(at) or b""
            rank = info >> 4 != c.STB_GLOBAL, name[:1] == b"_"
            if value not in best or rank < best[value][:2]:
                best[value] = *rank, name
    return {value: name for value, (_, _, name) in best.items()}


# A slot for reports, with names for memory that belongs to no image.

AGENT_NAME = "soscope's agent"
UNMAPPED = "unmapped memory"
ANONYMOUS = "anonymous memory"


class SlotRow:
    """One slot for reports: its target has a name, whatever memory that is.

    `to_image` is the name of an image, or of the memory to which a hook leads. `to_symbol` and
    `expected_image` are None if they are not known or do not apply.
    """

    __slots__ = ("binding", "expected_image", "to_image", "to_symbol")

    def __init__(self, binding: Binding, names: dict[LoadedImage, str] | None = None) -> None:
        self.binding = binding
        expected, to_image = binding.expected, binding.to_image
        names = names or {}
        self.expected_image = None if expected is None else names.get(expected) or expected.name
        self.to_symbol = binding.to_symbol
        self.to_image: str | None = None
        if to_image is not None:
            self.to_image = names.get(to_image) or to_image.name
        elif binding.state == HOOKED:
            self.to_image = memory_name(binding.importer.space, binding.target)

    @property
    def is_changed(self) -> bool:
        """Return whether the slot holds something that the loader would not have written."""
        return self.binding.state == HOOKED


def memory_name(space: Space, addr: int) -> str:
    """Return the name of the memory at an address that belongs to no image."""
    mapping = space.mapping_at(addr)
    if mapping is None:
        space.forget()  # it may be newer than the mappings that were read
        mapping = space.mapping_at(addr)
    if mapping is None:
        return UNMAPPED
    if mapping.path.startswith(AGENT):
        return AGENT_NAME
    return mapping.path or ANONYMOUS

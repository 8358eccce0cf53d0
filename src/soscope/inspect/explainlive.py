# SPDX-License-Identifier: Apache-2.0
"""The way of one call in a running process: from the link map to the definition, and a hook's."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.slots import R_X86_64_JUMP_SLOT, SlotRelocation, slot_relocations
from soscope.errors import FormatError, SoscopeError
from soscope.inspect.processmap import AGENT_NAME, Row
from soscope.process import arch_x86_64 as arch
from soscope.process.images.images import Images, find_images
from soscope.process.images.loadedimage import LoadedImage
from soscope.process.images.space import Space
from soscope.process.images.watch import Watch
from soscope.process.lookup.ownscope import own_scope
from soscope.process.slots.bindings import HOOKED, UNBOUND, Binding, Bindings
from soscope.process.slots.reaimed import note_reaimed
from soscope.process.slots.slotuses import CALL, JUMP, STUB, Use, can_search, uses_of

MAIN = "MAIN"

_TRIES = 3


class Way:
    """The way of calls of one symbol from one image, through one slot.

    `order` is the importer's place among `of` images of the process. `relocation_addr` is where
    the loader has the relocation, `aimed_at` the address that it names now: the slot, or a cell
    of the agent's. `page` says how the slot's page may be used ("rw-p"). `definition` is the
    address of the definition, None where nobody has one, `place` that of its image among the
    `places` in which the loader looks. `is_resolver` says that it is an IFUNC's resolver,
    `is_native` that there is an agent for such code, `is_loader` that the importer is the dynamic
    loader, `is_searched` that `uses` are known.
    """

    __slots__ = (
        "aimed_at",
        "definition",
        "importer",
        "is_loader",
        "is_native",
        "is_resolver",
        "is_searched",
        "of",
        "order",
        "page",
        "place",
        "places",
        "relocation_addr",
        "relocation_index",
        "row",
        "uses",
    )

    def __init__(self, images: Images, bindings: Bindings, binding: Binding) -> None:
        self.row = Row(binding)
        self.importer = image = binding.importer
        self.order, self.of = image.index + 1, len(images.linked)
        self.relocation_addr, self.relocation_index, self.aimed_at = _relocation(binding)
        mapping = image.space.mapping_at(binding.addr)
        self.page = "" if mapping is None else mapping.flags
        self.is_loader = image is images.loader
        self.is_native = (image.space.bits, image.machine) == (arch.BITS, arch.MACHINE)
        self.is_searched = can_search(image)
        self.uses = uses_of(image, binding.addr)
        self.definition: int | None = binding.expected_addr
        self.is_resolver = False
        self.place, self.places = 0, 0
        found = bindings.winner(
            image, _bytes(binding.symbol), binding.version, call=binding.is_call
        )
        if found is not None:
            listed = own_scope(images, image)[0]
            self.place = next((n for n, one in enumerate(listed, 1) if one is found[0]), 0)
            self.places = len(listed)
            self.is_resolver = bindings.is_ifunc(found)

    @property
    def binding(self) -> Binding:
        """The slot."""
        return self.row.binding

    @property
    def stubs(self) -> list[Use]:
        """The linker's stubs that go through the slot."""
        return [one for one in self.uses if one.kind == STUB]

    @property
    def calls(self) -> list[Use]:
        """The instructions that call or jump through the slot without a stub."""
        return [one for one in self.uses if one.kind in (CALL, JUMP)]

    @property
    def hook(self) -> list[str]:
        """What soscope's hook writes where, a sentence for each step."""
        one = self.binding
        slot = f"the slot at {one.addr:#x}"
        if self.is_loader:
            return ["none: the loader's own calls are left alone"]
        if not one.value and self.definition is None:
            return ["none: nobody defines it, so there is nothing to call"]
        if not self.is_native:
            return ["none: soscope has no agent for programs of this kind"]
        if one.state == HOOKED:
            if self.row.to_image == AGENT_NAME:
                return ["it is hooked already, by soscope's agent"]
            return [f"{self.row.to_image} has changed it: a hook would go in front of that"]
        protect = [] if "w" in self.page else ["its page is made writable, and read-only again"]
        entry = f"{slot} gets the address of an entry trampoline"
        if one.state == UNBOUND:
            field = f"r_offset of the relocation, at {self.relocation_addr:#x},"
            return [
                f"{field} gets the distance to a cell: the loader will bind there",
                *protect,
                entry,
                f"the cell keeps {one.value:#x}, the way into the loader, until then",
            ]
        keeps = f"the cell behind it keeps {one.value:#x}: calls go on to there"
        if one.is_call:
            return [*protect, entry, keeps]
        return self._hook_of_data(protect, entry, keeps)

    def _hook_of_data(self, protect: list[str], entry: str, keeps: str) -> list[str]:
        loads = [one for one in self.uses if one.kind not in (STUB, CALL, JUMP)]
        through = [*self.stubs, *self.calls]
        if not through:
            return ["only loads that a call alone follows can be re-aimed; else there is none"]
        if not loads and not self.stubs:
            return [*protect, entry, keeps]
        word = "a word of the agent's within 2 GiB"
        return [
            "the slot stays as it is: the function's address is taken, and must stay what it is",
            # loads that a call alone follows are, too; the agent tells them from others
            *(f"the displacement at {one.displacement:#x} is aimed at {word}" for one in through),
            "that word gets the address of an entry trampoline",
            keeps,
        ]


class Explanation:
    """What there is to say of one symbol in process `pid`.

    `others` are the names of images that import it, too, and were not asked for; `defined_in`
    those that define it. `is_changing` says that images came and went meanwhile, so that what
    is said may be of two moments.
    """

    __slots__ = ("defined_in", "is_changing", "others", "path", "pid", "symbol", "ways")

    def __init__(self, pid: int, symbol: str, path: str) -> None:
        self.pid = pid
        self.symbol = symbol
        self.path = path
        self.ways: list[Way] = []
        self.others: list[str] = []
        self.defined_in: list[str] = []
        self.is_changing = False


def explain(pid: int, symbol: str, importer: str | None = None) -> Explanation:
    """Explain how calls of `symbol` (NAME or NAME@VERSION) go in process `pid`.

    `importer` is the name or path of an image, MAIN for the program; without it the program
    is taken if it imports the symbol, else the first image that does. Raises NoSuchProcess,
    NotPermitted, and SoscopeError (slug no-such-image).
    """
    space = Space(pid)
    try:
        for _ in range(_TRIES):
            images = find_images(space)
            explanation = _explain(images, symbol, importer)
            if Watch(images).holds():
                break
            space.forget()
        else:
            explanation.is_changing = True
        space.check()
    finally:
        space.close()
    return explanation


def _explain(images: Images, symbol: str, importer: str | None) -> Explanation:
    wanted = None if importer is None else _image(images, importer)
    bindings = Bindings(images)
    name, _, version = symbol.partition("@")
    version = version.removeprefix("@")
    found = [
        one
        for listed in bindings.by_image.values()
        for one in listed
        if one.symbol == name and (not version or one.version == version)
    ]
    explanation = Explanation(images.space.pid, symbol, images.main.path)
    explanation.defined_in = [one.name for one in bindings.images_defining(_bytes(name))]
    chosen = wanted or (found[0].importer if found else None)
    note_reaimed(bindings, [] if chosen is None else [chosen])
    mine = [one for one in found if one.importer is chosen]
    explanation.ways = [Way(images, bindings, one) for one in mine]
    others = dict.fromkeys(one.importer.name for one in found if one.importer is not chosen)
    explanation.others = list(others)
    for way in explanation.ways:
        _ = way.importer.name, way.importer.path  # while the process is open
    return explanation


def _image(images: Images, text: str) -> LoadedImage:
    found = [images.main] if text == MAIN else images.named(text)
    if not found:
        raise SoscopeError(
            f"no image '{text}' in process {images.space.pid}",
            slug="no-such-image",
            hint=f"soscope map -p {images.space.pid} lists them",
        )
    return found[0]


def _relocation(binding: Binding) -> tuple[int, int, int]:
    """Return where the relocation of a slot lies in memory, its index, and what it names now."""
    image = binding.importer
    wanted = binding.relocation
    index = -1
    try:
        for index, one in enumerate(_table(image, in_plt=wanted.in_plt)):
            if one.symbol == wanted.symbol and one.type == wanted.type:
                return one.at, index, one.vaddr + image.load_bias
    except FormatError:
        pass  # the slot is shown without its record
    return 0, max(index, 0), binding.addr


def _table(image: LoadedImage, *, in_plt: bool) -> list[SlotRelocation]:
    return [one for one in slot_relocations(image.elf) if one.in_plt == in_plt]


def type_name(binding: Binding) -> str:
    """Return the name of the slot's relocation type."""
    machine = "X86_64" if binding.importer.space.bits == 64 else "386"
    is_jump = binding.relocation.type == R_X86_64_JUMP_SLOT
    return f"R_{machine}_{'JUMP_SLOT' if is_jump else 'GLOB_DAT'}"


def table_name(binding: Binding) -> str:
    """Return the name of the table that the relocation stands in."""
    is_rela = binding.importer.elf.dynamic.get(c.DT_RELA) is not None or (
        binding.importer.elf.dynamic.get(c.DT_PLTREL) == c.DT_RELA
    )
    return (".rela" if is_rela else ".rel") + (".plt" if binding.relocation.in_plt else ".dyn")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")

# SPDX-License-Identifier: Apache-2.0
"""What there is to say of calls of a symbol, in files and in a process alike.

An explanation has images, an image has ways, a way has steps. What a file alone can tell, or a
process alone, stands in a part of its own of each way.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.listing.base import CallInstruction, Line, Value
from soscope.inspect.explain.resolvers import Resolver
from soscope.model import filemap

TYPE_CHECKING = False
if TYPE_CHECKING:  # files are explained without
    from soscope.live.slots.slotuses import Use

# The steps, in the order of a first call.
LINK_MAP = "link-map"
RELOCATION = "relocation"
CALL_SITE = "call"
THUNK = "thunk"
STUB = "stub"
SLOT = "slot"
BEFORE = "before"
HELPER = "helper"
FIRST = "plt0"
RESOLVER = "resolver"
AFTER = "after"
SECOND = "second"
DEFINITION = "definition"
HOOK = "hook"
STEPS = (
    *(LINK_MAP, RELOCATION, CALL_SITE, THUNK, STUB, SLOT, BEFORE, HELPER, FIRST, RESOLVER, AFTER),
    *(SECOND, DEFINITION, HOOK),
)


class CallSite(NamedTuple):
    """One instruction that calls: where, and in which function.

    `lines` is what stands around it, of the first one of a way alone.
    """

    call: CallInstruction
    section: str
    function: str
    lines: tuple[Line, ...]


class Given(NamedTuple):
    """What a resolver finds at `place`; `value` is the number or the cell's address."""

    place: str
    value: Value
    text: str
    meaning: str


class Step(NamedTuple):
    """One step: `title` is its name, `where` the section or function, `notes` are sentences."""

    step: str
    title: str
    where: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


class FilePart(NamedTuple):
    """What of a way stands in a file. Addresses are link-time ones.

    `slot` has the stubs, too. `sites` are all instructions that call, whatever is shown of them.
    `given` is what the resolver is given and `generations` those that this loader had, empty where
    nothing is lazy or known. `instructions` are how many a call takes to the function: the first up
    to the resolver, and every later one.
    """

    slot: filemap.FileSlot
    sites: tuple[CallSite, ...]
    given: tuple[Given, ...]
    generations: tuple[Resolver, ...]
    instructions: tuple[int, int]


class RelocationPlace(NamedTuple):
    """Where the relocation of a slot is: at `addr` in memory, number `entry` of `table`.

    `aimed_at` is the run-time address that it names now: the slot, or a cell of the agent's.
    `symbol` is an index into the dynamic symbol table.
    """

    addr: int
    table: str
    entry: int
    aimed_at: int
    symbol: int


class ProcessPart(NamedTuple):
    """What of a way a process holds. Addresses are run-time ones.

    `link_map` is the importer's entry. The slot is at `addr` and holds `value`; `state` is a
    constant of live/slots/bindings.py, `page` how its page may be used ("rw-p"). `to_image`,
    `to_symbol` and `expected_image` are those of `live.slots.row.Row`. `uses` is the code that goes
    through it. `definition` is the address of the definition, None where nobody has one,
    `is_ifunc` says that this is an IFUNC's resolver. `hook` is what soscope's hook writes where, a
    sentence for each step.
    """

    namespace: int
    link_map: int
    load_bias: int
    relocation: RelocationPlace
    uses: tuple[Use, ...]
    addr: int
    value: int
    state: str
    to_image: str | None
    to_symbol: str | None
    expected_image: str | None
    page: str
    definition: int | None
    is_ifunc: bool
    hook: tuple[str, ...]


class CallWay(NamedTuple):
    """The way of calls through one slot, at link-time address `vaddr` of the importer.

    `kind` is the name of the relocation, or of the Mach-O record; `symbol` is "" where there is
    none, `version` None. `provider` is the image that gives the symbol, else `provider_reason` says
    why there is none. `wrong` says what does not fit together.
    """

    vaddr: int
    kind: str
    symbol: str
    version: str | None
    provider: str | None
    provider_reason: str | None
    steps: tuple[Step, ...]
    wrong: tuple[str, ...]
    file: FilePart | None = None
    process: ProcessPart | None = None

    def step(self, name: str) -> Step | None:
        """Return a step, None where this way has none of that name."""
        return next((step for step in self.steps if step.step == name), None)


class Importer(NamedTuple):
    """An image whose calls are explained.

    `symbol` is the name that this image has for it; `ways` go through one slot each. Where there
    is none, `near` are names that it may have been mistaken for. `kind` is "" where nothing but a
    process tells. `loader` is a constant of `resolvers`, "" where the file does not tell; `partial`
    says what could not be read.
    """

    name: str
    path: str
    format: str
    arch: str
    kind: str
    loader: str
    symbol: str
    ways: tuple[CallWay, ...]
    near: tuple[str, ...]
    partial: tuple[str, ...]


class Explanation(NamedTuple):
    """How calls of `symbol` go, as it was asked for, from `images`: at most two files.

    Of process `pid`, which runs the program at `path`, `images` is the importer that was chosen,
    empty where none imports the symbol. `others` are the names of images that import it, too,
    `defined_in` those that define it. `is_changing` says that images came and went meanwhile, so
    that what is said may be of two moments.
    """

    symbol: str
    images: tuple[Importer, ...]
    pid: int | None = None
    path: str = ""
    others: tuple[str, ...] = ()
    defined_in: tuple[str, ...] = ()
    is_changing: bool = False

    @property
    def has_ways(self) -> bool:
        """Return whether there is anything to show."""
        return any(image.ways for image in self.images)

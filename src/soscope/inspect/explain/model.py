# SPDX-License-Identifier: Apache-2.0
"""The explanation of a symbol's calls, in files and in a process alike.

An explanation has images, an image has call paths, a path has steps. Facts that only a file can
tell, or only a process, are in a separate part of each path.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.listing import CallInstruction, Line, Value
from soscope.inspect.explain.resolvers import Resolver
from soscope.model import filemap

TYPE_CHECKING = False
if TYPE_CHECKING:  # not needed to explain files
    from soscope.live.slots.code import Use

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
    """One instruction that calls: its address and its function.

    `lines` are the instructions around it, only set for the first call site of a path.
    """

    call: CallInstruction
    section: str
    function: str
    lines: tuple[Line, ...]


class Given(NamedTuple):
    """One argument of a resolver, at `place`; `value` is the number or the cell's address."""

    place: str
    value: Value
    text: str
    meaning: str


class Step(NamedTuple):
    """One step: `title` is its name, `where` its section or function, `notes` are sentences."""

    step: str
    title: str
    where: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


class FilePart(NamedTuple):
    """The part of a call path that a file tells; addresses are link-time addresses.

    `slot` includes the stubs. `sites` are all instructions that call, even if not all are
    printed. `given` are the resolver's arguments, `generations` the versions of this loader's
    resolver; both are empty if nothing is lazy or known. `instructions` are the numbers of
    instructions that a call takes to the function: in the first call up to the resolver, and in
    every later one.
    """

    slot: filemap.FileSlot
    sites: tuple[CallSite, ...]
    given: tuple[Given, ...]
    generations: tuple[Resolver, ...]
    instructions: tuple[int, int]


class RelocationPlace(NamedTuple):
    """The relocation of a slot: at `addr` in memory, number `entry` of `table`.

    `aimed_at` is the run-time address that it names now: the slot, or a cell of the agent.
    `symbol` is an index into the dynamic symbol table.
    """

    addr: int
    table: str
    entry: int
    aimed_at: int
    symbol: int


class ProcessPart(NamedTuple):
    """The part of a call path that a process tells; addresses are run-time addresses.

    `link_map` is the importer's entry. The slot is at `addr` and holds `value`. `state` is a
    constant of live/slots/bindings.py, `page` the protection of its page ("rw-p"). `to_image`,
    `to_symbol` and `expected_image` are those of `live.slots.row.SlotRow`. `uses` is the code
    that goes through the slot. `definition` is the address of the definition, None if there is
    none. `is_ifunc` tells that this is an IFUNC's resolver. `hook` has a sentence for each thing
    that soscope's hook writes.
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
    """The path of calls through one slot, at link-time address `vaddr` of the importer.

    `kind` is the name of the relocation, or of the Mach-O record. `symbol` is "" and `version`
    None if there is none. `provider` is the image that defines the symbol. If there is none,
    `provider_reason` tells why. `wrong` lists contradictions.
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
        """Return the step with this name, None if this path has none."""
        return next((step for step in self.steps if step.step == name), None)


class Importer(NamedTuple):
    """An image whose calls are explained.

    `symbol` is this image's name for it. Each of `ways` is the path through one slot. If there is
    none, `near` are similar names. `kind` is "" if only a process was read. `loader` is a
    constant of `resolvers`, "" if the file does not tell. `partial` lists what could not be read.
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
    """The explanation of calls of `symbol`, as the user wrote it, from `images`: at most two.

    For process `pid`, which runs the program at `path`, `images` has the importer that was
    chosen, or nothing if no image imports the symbol. `others` are the names of other images that
    import it, `defined_in` of images that define it. `is_changing` tells that images were loaded
    or closed meanwhile, so that the facts may be of two moments.
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
        """Return whether there is any path to print."""
        return any(image.ways for image in self.images)

# SPDX-License-Identifier: Apache-2.0
"""The blocks instrument: record all blocks and mappings with the stacks of the calls.

The calls of all images are hooked, also the calls between the C and C++ libraries: what strdup(3)
allocates is a block, too. The agent records which function the program itself has called.
"""

from __future__ import annotations

from struct import unpack_from

from soscope.control.flight import StackLosses
from soscope.control.settings import Hooks, Instrument
from soscope.instruments.mem.sampled import scale_of
from soscope.live.python.offsets import agent_layouts
from soscope.prototypes import load
from soscope.select.filter import ALL, compile_selection
from soscope.wire import layout
from soscope.wire.recorder import BITS, WORDS, stack_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from soscope.control.outcome import ProgramOutcome
    from soscope.instruments.mem.aggregate import Aggregate
    from soscope.instruments.mem.lifetimes import CountedBlocks
    from soscope.recording.sink import Sink
    from soscope.wire.block import ControlBlock

_THREADS = (
    "pthread_create",
    "pthread_join",
    "pthread_tryjoin_np",
    "pthread_timedjoin_np",
    "pthread_clockjoin_np",
    "pthread_detach",
    "thrd_create",
    "thrd_join",
    "thrd_detach",
)
# new and new[], mangled by the Itanium C++ ABI: the parameters after the size
_NEW = ("", "St11align_val_t", "RKSt9nothrow_t", "St11align_val_tRKSt9nothrow_t")
# delete and delete[]: the parameters after the address
_DELETE = ("", "m", "St11align_val_t", "mSt11align_val_t", "RKSt9nothrow_t", _NEW[-1])
FUNCTIONS = (
    *layout.ALLOCATORS,
    *layout.FREES,
    *layout.MAPPINGS,
    *_THREADS,
    *(f"_Zn{kind}m{rest}" for kind in "wa" for rest in _NEW),
    *(f"_Zd{kind}Pv{rest}" for kind in "la" for rest in _DELETE),
)

# What they return is called through no slot: the agent sees what they are asked for.
_POINTERS = ("dlsym", "dlvsym")

_FEW_BITS, _FEW_WORDS = 6, 63  # sizes of the stack table if stacks have no frames
_ARRAYS = 512  # threads that can have an array of counters of their own

_OWN_ALLOCATOR = (
    "the program has an allocator of its own: what it allocates itself goes through no slot"
)

_GIVEN_BEFORE = "not seen: calls through pointers that dlsym gave before soscope was attached"

EXACT, SAMPLED, COUNT = "exact", "sampled", "count"
_MODES = {
    EXACT: layout.BLOCKS_EXACT,
    SAMPLED: layout.BLOCKS_SAMPLE,
    COUNT: layout.BLOCKS_COUNT,
}


def own_memory(mode: str = EXACT, sample_bytes: int | None = None) -> tuple[bytes, int]:
    """Return the first bytes of the instrument's memory, and the size of that memory.

    Most of the memory stays untouched (sparse). In mode SAMPLED, one in `sample_bytes` bytes is
    chosen.
    """
    counts = mode == COUNT
    bits, words = (_FEW_BITS, _FEW_WORDS) if counts else (BITS, WORDS)
    return stack_memory(
        b"" if counts else agent_layouts(),
        bits=bits,
        words=words,
        mode=_MODES[mode],
        scale=scale_of(sample_bytes),
        arrays=_ARRAYS if counts else 0,
    )


class BlocksInstrument(Instrument):
    """Records every block, or with `sample_bytes` blocks with a byte that was chosen by chance.

    One in `sample_bytes` bytes is chosen. `threads_lost` counts threads whose own stacks are not
    known. With `counts`, the agent counts blocks by function and size class, and records only
    mappings.
    """

    name = "blocks"

    def __init__(
        self,
        sample_bytes: int | None = None,
        command: list[str] | None = None,
        *,
        counts: bool = False,
        aggregates: bool = False,
        older_ns: int = 0,
    ) -> None:
        """Make the hooks. `command` is the command line of a process that runs already.

        With `aggregates`, sums are recorded, also separate sums of blocks that are older than
        `older_ns` at the end.
        """
        self.sample_bytes = sample_bytes
        self._command = command
        self.mode = COUNT if counts else EXACT if sample_bytes is None else SAMPLED
        self._aggregates = aggregates or counts
        self._counted: CountedBlocks | None = None
        self._older_ns = older_ns
        self._aggregate: Aggregate | None = None
        self._blocks: dict[int, ControlBlock] = {}  # by id()
        self._are_many = False
        own, size = own_memory(self.mode, sample_bytes)
        self.hooks: Hooks = Hooks(
            layout.INSTRUMENT_BLOCKS,
            compile_selection([*FUNCTIONS, *_POINTERS], [ALL], is_exact=True),
            load(),
            entry_only=True,  # the agent itself calls the functions, so they return to it
            own_size=size,
            own=own,
        )
        self._losses = StackLosses()
        self.threads_lost = 0
        self._has_allocator = False
        self._given: dict[str, int] = {}  # by image, as in struct sosc_blocks
        self._before: list[str] = []  # a line about pointers that dlsym may have given before

    def options(self) -> dict[str, object]:
        """Return how blocks are recorded, for the options of a recording."""
        said: dict[str, object] = {"mode": self.mode, "sample_bytes": self.sample_bytes}
        said["aggregate"] = self._aggregates
        if self._command is not None:
            said["command"] = self._command
        return {"blocks": said}

    def recorder(self, recording: Sink, beat: Callable[[], object]) -> Sink:
        """Return a sink that adds events up before a recording, or the recording itself."""
        if not self._aggregates:
            return recording
        # numpy takes a while to import
        from soscope.instruments.mem.aggregate import Aggregate
        from soscope.instruments.mem.lifetimes import CountedBlocks

        if self.mode == COUNT:
            self._counted = CountedBlocks()
        self._aggregate = Aggregate(
            recording,
            self.sample_bytes,
            older_ns=self._older_ns,
            counted=self._counted,
            beat=beat,
        )
        return self._aggregate

    def begun(self) -> None:
        """Store the time at which all calls were hooked."""
        if self._aggregate is not None:
            self._aggregate.begun()

    def process(self, pid: int, block: ControlBlock) -> None:
        """Record a new program. As soon as there are two, all events get times of the clock.

        The events of all programs have one order. A thread that numbers its events itself cannot
        know about events of another program.
        """
        if self._counted is not None:
            self._counted.add(block)
        if id(block) in self._blocks:
            return
        self._blocks[id(block)] = block
        self._are_many |= len(self._blocks) > 1
        for each in self._blocks.values() if self._are_many else ():
            _let_nobody_lead(each)

    def check_start(  # noqa: D102  see Instrument
        self, blocks: Sequence[ControlBlock], meanwhile: Callable[[], object]
    ) -> Iterable[str]:
        del meanwhile
        if self._command is not None:
            images = sorted({name for block in blocks for name in _askers(block)})
            self._before = [f"{_GIVEN_BEFORE}, to {', '.join(images)}"] if images else []
        return [*self._before, *([_OWN_ALLOCATOR] if any(map(_has_allocator, blocks)) else [])]

    def catch_up(self) -> bool:
        """Add up the drained events if there are many."""
        return self._aggregate is not None and self._aggregate.catch_up()

    def move(self) -> bool:
        """Add up the drained events at intervals."""
        return self._aggregate is not None and self._aggregate.move()

    def finish(self) -> list[str]:
        """Add up the remaining events."""
        if self._aggregate is not None:
            self._aggregate.finish()
        return []

    @property
    def lacking(self) -> list[str]:
        """Return lines that name the functions whose calls through pointers were not seen."""
        return [
            f"not seen: calls of {_named(bits)} through pointers that dlsym gave to {image}"
            for image, bits in self._given.items()
        ]

    def totals(self) -> dict[str, object]:
        """Return the losses for lack of room, for the end of a recording."""
        why = self._losses.notes() + ([_OWN_ALLOCATOR] if self._has_allocator else [])
        why += self._before
        lost = {"stacks_lost": self._losses.lost, "threads_lost": self.threads_lost}
        return {"blocks": {**lost, "notes": why}}

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add the losses of one program, and the blocks that its threads have counted."""
        self._blocks.pop(id(block), None)
        if self._counted is not None:
            self._counted.take(block)
        self._losses.take(block, layout.INSTRUMENT_BLOCKS)
        with block.own(layout.INSTRUMENT_BLOCKS) as own:
            if len(own) >= layout.BLOCKS.size:
                head = layout.BLOCKS
                (threads_lost,) = unpack_from("<Q", own, head.offset("threads_lost"))
                self.threads_lost += threads_lost
                names = {image.index: image.name for image in program.images}
                for word in unpack_from(f"<{layout.GIVEN}Q", own, head.offset("given")):
                    if word:
                        image = names.get((word >> 32) - 1, "other code")
                        self._given[image] = self._given.get(image, 0) | word & 0xFFFFFFFF
        self._has_allocator |= _has_allocator(block)


def _has_allocator(block: ControlBlock) -> bool:
    with block.own(layout.INSTRUMENT_BLOCKS) as own:
        if len(own) < layout.BLOCKS.size:
            return False
        (has_allocator,) = unpack_from("<Q", own, layout.BLOCKS.offset("has_allocator"))
        return bool(has_allocator)


def _askers(block: ControlBlock) -> set[str]:
    """Return the names of the images that can ask dlsym for pointers."""
    chosen = block.slots_of(_POINTERS)
    slots = block.slots(0, block.images(0), chosen=chosen, instrument=layout.INSTRUMENT_BLOCKS)
    return {slot.caller.name for slot in slots if slot.caller is not None}


def _named(bits: int) -> str:
    """Return the names of the functions that these bits of struct sosc_blocks stand for."""
    from soscope.frames.names import APIS  # slow to import, and seldom needed

    kinds = {layout.GIVEN_FREE: "free", layout.GIVEN_MUNMAP: "munmap"}
    kinds |= {1 << value: name for value, name in APIS.items() if value}
    return ", ".join(name for bit, name in sorted(kinds.items()) if bits & bit)


def _let_nobody_lead(block: ControlBlock) -> None:
    start = block.own_start(layout.INSTRUMENT_BLOCKS)
    if start:
        word = (start + layout.BLOCKS.offset("lead")) // 8
        block.words[word] = layout.LEAD_NOBODY | layout.LEAD_NEVER

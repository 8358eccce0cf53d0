# SPDX-License-Identifier: Apache-2.0
"""The blocks instrument: each block and mapping that comes and goes, by the stack of its call.

It has the calls of all images hooked, those of the C and C++ libraries among each other included:
what strdup(3) allocates is a block, too. The agent says which function the program called.
"""

from __future__ import annotations

from soscope.control.instrument import Hooks, Instrument
from soscope.instruments.mem.layouts import agent_layouts
from soscope.instruments.mem.sampled import scale_of
from soscope.prototypes import load
from soscope.select.filter import ALL, compile_selection
from soscope.wire import blocklayout, layout, objectlayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import ProgramOutcome
    from soscope.recording.sink import Sink
    from soscope.wire.block import ControlBlock

# What the functions are called that free a block, or make one.
_C = (
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "free",
    "cfree",
    "free_sized",
    "free_aligned_sized",
)
_MAPPINGS = ("mmap", "mmap64", "munmap", "mremap", "brk", "sbrk")
# Mangled by the Itanium C++ ABI: new and new[], with their parameters behind the size
_NEW = ("", "St11align_val_t", "RKSt9nothrow_t", "St11align_val_tRKSt9nothrow_t")
# delete and delete[], behind the address
_DELETE = ("", "m", "St11align_val_t", "mSt11align_val_t", "RKSt9nothrow_t", _NEW[-1])
FUNCTIONS = (
    *_C,
    *_MAPPINGS,
    *(f"_Zn{kind}m{rest}" for kind in "wa" for rest in _NEW),
    *(f"_Zd{kind}Pv{rest}" for kind in "la" for rest in _DELETE),
)

_BITS = 20  # of the number of buckets
_WORDS = 1 << 23  # of stacks and codes: some 350,000 of 23 frames


def own_memory(sample_bytes: int | None = None) -> tuple[bytes, int]:
    """Return what the instrument's own memory begins with, and its size; it is sparse.

    One in `sample_bytes` bytes is chosen, None: each block is recorded.
    """
    layouts = agent_layouts()
    first_layout = blocklayout.BLOCKS.size
    first_bucket = first_layout + len(layouts) + -len(layouts) % 8
    first_word = first_bucket + (8 << _BITS)
    count = len(layouts) // objectlayout.PYTHON.size
    mode = blocklayout.BLOCKS_EXACT if sample_bytes is None else blocklayout.BLOCKS_SAMPLE
    head = blocklayout.BLOCKS.struct.pack(
        _BITS,
        mode,
        _WORDS,
        1,
        0,
        first_bucket,
        first_word,
        scale_of(sample_bytes),
        first_layout,
        count,
    )
    return head + layouts, first_word + 8 * _WORDS


class BlocksInstrument(Instrument):
    """Records every block, or by chance those that have one in `sample_bytes` bytes.

    `stacks_lost` counts calls whose stacks found no room.
    """

    name = "blocks"

    def __init__(self, sample_bytes: int | None = None) -> None:
        self.sample_bytes = sample_bytes
        own, size = own_memory(sample_bytes)
        self.hooks: Hooks = Hooks(
            layout.INSTRUMENT_BLOCKS,
            compile_selection(list(FUNCTIONS), [ALL]),
            load(),
            entry_only=True,  # the functions are called by the agent: they return to it
            own_size=size,
            own=own,
        )
        self.stacks_lost = 0

    def options(self) -> dict[str, object]:
        """Return how blocks were recorded, for a recording."""
        mode = "exact" if self.sample_bytes is None else "sampled"
        return {"blocks": {"mode": mode, "sample_bytes": self.sample_bytes}}

    def totals(self) -> dict[str, object]:
        """Return what had no room, for a recording."""
        return {"blocks": {"stacks_lost": self.stacks_lost}}

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add what found no room in one program."""
        with block.own(layout.INSTRUMENT_BLOCKS) as own:
            if len(own) >= blocklayout.BLOCKS.size:
                self.stacks_lost += blocklayout.BLOCKS.struct.unpack_from(own)[4]

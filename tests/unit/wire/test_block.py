# SPDX-License-Identifier: Apache-2.0
"""The control block: laid out, filled, refused, and read while the agent writes."""

from __future__ import annotations

import gc
import mmap
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from soscope.errors import AgentError, FormatError
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan
from soscope.wire.sharedfile import PlanFile
from tests.support.time.patience import limit

OF_PLAN = (layout.SEC_PATTERNS, layout.SEC_RULES, layout.SEC_FUNCTIONS, layout.SEC_PATCHES)


def plan(mode: int = layout.INSTRUMENT_TRACE, chunks: int = 4, count_arrays: int = 0) -> Plan:
    return Plan(
        instruments=[
            InstrumentPlan(
                mode,
                rules=layout.RULE.struct.pack(1, 1, 0xFFFF, 0xFFFF, 0) * 2,
                functions=b"\1" * layout.FUNCTION_TABLE.size,
            )
        ],
        patterns=b"PATTERNS",
        main_path="/bin/prögram",
        chunks=chunks,
        count_arrays=count_arrays,
        string_limit=77,
        build_id=b"\xab" * 20,
    )


@pytest.fixture
def block() -> Iterator[ControlBlock]:
    block = ControlBlock.create(plan())
    yield block
    block.close()


def put_string(block: ControlBlock, text: bytes) -> int:
    at = block.strings_used
    start, _ = block.section(layout.SEC_STRINGS)
    block.mapping[start + at : start + at + len(text) + 1] = text + b"\0"
    block.strings_used = at + len(text) + 1
    return at


def put_image(block: ControlBlock, name: bytes, *, flags: int = 0, ready: int = 1) -> int:
    index = block.image_count
    record = layout.IMAGE.struct.pack(
        put_string(block, name), 0, 0x1000, 0x2000, 0x3000, b"\xcd" * 32, 20, b"", flags, 3, 2, 1,
        99, 5, ready, 0,
    )  # fmt: skip
    block.view(layout.SEC_IMAGES, index * len(record), (index + 1) * len(record))[:] = record
    block.image_count = index + 1
    return index


def put_slot(block: ControlBlock, symbol: bytes, caller: int, callee: int, ready: int = 1) -> int:
    index = block.slot_count
    record = layout.SLOT.struct.pack(
        put_string(block, symbol), 0, caller, callee, 0x4000, 0, 0, layout.NONE,
        layout.SLOT_JUMP_SLOT, 0, layout.SLOT_LAZY, layout.ERROR_NULL, ready, 0,
        layout.INSTRUMENT_TRACE, 0, 0,
    )  # fmt: skip
    block.view(layout.SEC_SLOTS, index * len(record), (index + 1) * len(record))[:] = record
    block.slot_count = index + 1
    return index


def test_every_scalar_of_the_control_struct_is_an_attribute(block: ControlBlock) -> None:
    renamed = {
        "images": "image_count",
        "slots": "slot_count",
        "strings": "strings_used",
        "call_sites": "call_site_count",
        "moves": "move_count",
    }
    for field, (_, size, code) in layout.CONTROL.fields.items():
        if code == "s" or size > 8 or field == "reserved":
            continue
        name = renamed.get(field, field)
        assert isinstance(getattr(block, name), int)
        setattr(block, name, 5)
        offset = layout.CONTROL.offset(field)
        assert block.mapping[offset : offset + size] == (5).to_bytes(size, "little")


def test_sections_are_aligned_and_do_not_overlap(block: ControlBlock) -> None:
    end = layout.PAGE
    plan_end = layout.PLAN_HEAD.size
    in_order = sorted(range(layout.SECTIONS), key=block.section)
    for section in in_order:
        if section in OF_PLAN:
            offset, size = block.section(section)
            assert offset % 8 == 0
            assert offset >= plan_end
            plan_end = offset + size
            continue
        offset, size = block.section(section)
        assert offset % layout.PAGE == 0
        assert offset >= end
        end = offset + size
    assert end <= block.size == os.fstat(block.fd).st_size
    assert plan_end <= block.plan.size == os.fstat(block.plan.fd).st_size
    assert block.section(layout.SEC_RING)[0] % layout.CHUNK_SIZE == 0
    assert block.section(layout.SEC_RING)[1] == 4 * layout.CHUNK_SIZE


def test_create_writes_what_the_plan_says(block: ControlBlock) -> None:
    assert block.magic == layout.MAGIC
    assert block.control_size == layout.CONTROL.size
    assert block.owner_pid == os.getpid()
    assert block.owner_start > 0
    assert block.string_limit == 77
    assert block.build_id == b"\xab" * 20 + bytes(12)
    start, _ = block.section(layout.SEC_PATTERNS)
    assert block.plan.read(start, 8) == b"PATTERNS"
    start, size = block.section(layout.SEC_FUNCTIONS)
    name, path = block.plan.field("main_name"), block.plan.field("main_path")
    assert block.plan.read(start + name, size - name) == "prögram\0/bin/prögram\0".encode()
    assert path == name + len("prögram\0".encode())
    assert block.rules_matched(layout.INSTRUMENT_TRACE) == [0, 0]
    assert block.dropped == (0,) * layout.DROP_KINDS


def test_a_new_block_is_sparse() -> None:
    block = ControlBlock.create(plan(chunks=4096))
    assert block.size > 64 << 20
    assert os.fstat(block.fd).st_blocks * 512 < 2 << 20
    block.close()


def test_a_second_mapping_sees_the_same_words(block: ControlBlock) -> None:
    other = ControlBlock(os.dup(block.fd), block.plan)
    other.heartbeat = 1 << 40
    assert block.heartbeat == 1 << 40
    other.set_chunk_state(2, layout.CHUNK_FULL)
    assert list(block.chunk_states()) == [0, 0, 2, 0]
    other.chunk(3)[:4] = b"test"
    assert bytes(block.chunk(3)[:4]) == b"test"
    assert bytes(block.ring[3 * layout.CHUNK_SIZE :][:4]) == b"test"
    other.close()


def test_names_are_read_when_they_are_ready(block: ControlBlock) -> None:
    main = put_image(block, b"program", flags=layout.IMAGE_MAIN)
    put_image(block, b"half", ready=0)
    libc = put_image(block, b"libc.so.6")
    images = block.images(7)
    assert [(image.index, image.name, image.path) for image in images] == [
        (main, "program", ""),
        (libc, "libc.so.6", ""),
    ]
    assert images[0].build_id == b"\xcd" * 20
    assert (images[0].process, images[0].is_main, images[0].pid) == (7, True, 99)
    put_slot(block, b"malloc", main, libc)
    put_slot(block, b"half", main, libc, ready=0)
    put_slot(block, b"gone", main, layout.NONE)
    slots = block.slots(7, images)
    assert [(slot.index, slot.symbol, slot.version) for slot in slots] == [
        (0, "malloc", ""),
        (2, "gone", ""),
    ]
    assert slots[0].caller is images[0]
    assert slots[0].callee is images[1]
    assert slots[1].callee is None
    assert slots[0].lazy
    assert not slots[0].entry_only
    assert slots[0].prototype is None


def test_slots_are_found_by_what_a_report_wants_of_them(block: ControlBlock) -> None:
    main = put_image(block, b"program")
    images = block.images(7)
    at, size = layout.SLOT.offset("refusal"), layout.SLOT.size
    for name in (b"dlsym", b"mydlsym", b"free", b"dlsym", b"dlsymx", b"dlvsym"):
        put_slot(block, name, main, main)
    block.mapping[block.section(layout.SEC_SLOTS)[0] + 2 * size + at] = layout.REFUSED_TEXT
    assert block.refused_slots() == [2]
    assert block.slots_of(["dlsym"]) == [0, 3]
    assert block.slots_of(["dlvsym", "free", "calloc"]) == [2, 5]
    assert block.slots_of(["calloc"]) == []
    chosen = block.slots(7, images, chosen={3, 2, 99})
    assert [(slot.index, slot.symbol, slot.refusal) for slot in chosen] == [
        (2, "free", layout.REFUSED_TEXT),
        (3, "dlsym", layout.HOOKED),
    ]


def test_a_name_outside_the_strings_is_empty(block: ControlBlock) -> None:
    assert block.string(0) == ""
    assert block.string(1 << 31) == ""


def test_counts_are_added_up_over_the_arrays() -> None:
    block = ControlBlock.create(plan(layout.INSTRUMENT_COUNT, chunks=0, count_arrays=3))
    block.slot_count = 5
    block.counts_used = 1  # threads; array 0 is shared
    start = block.section(layout.SEC_COUNTS)[0]
    for array, slot, calls in ((0, 1, 10), (1, 1, 5), (1, 4, 2), (2, 0, 99)):
        at = start + (array * layout.MAX_SLOTS + slot) * 8
        block.mapping[at : at + 8] = calls.to_bytes(8, "little")
    assert block.counts() == {1: 15, 4: 2}
    block.close()


def test_statistics_are_merged_over_the_arrays() -> None:
    block = ControlBlock.create(plan(layout.INSTRUMENT_STATS, chunks=0, count_arrays=2))
    block.slot_count = 3
    block.counts_used = 2
    start = block.section(layout.SEC_COUNTS)[0]
    cells = {
        (0, 0): (2, 2, 1, 30, 11, 20),
        (1, 0): (1, 1, 0, 5, 6, 5),
        (1, 2): (4, 0, 0, 0, 0, 0),
        (0, 1): (3, 3, 0, 3, 1, 2),
    }
    for (array, slot), values in cells.items():
        at = start + (array * layout.MAX_SLOTS + slot) * layout.STATS.size
        block.mapping[at : at + layout.STATS.size] = layout.STATS.struct.pack(
            *values, values[3] // 3, 0
        )
    assert block.stats() == {
        0: (3, 3, 1, 35, 5, 20, 11),
        1: (3, 3, 0, 3, 0, 2, 1),
        2: (4, 0, 0, 0, 0, 0, 0),
    }
    block.close()


def test_freeing_chunks_tells_the_waiting_writers(block: ControlBlock) -> None:
    for index in (0, 1):
        block.set_chunk_state(index, layout.CHUNK_FULL)
    block.ring_drained = 0xFFFF_FFFF
    block.ring_waiters = 1
    heartbeat = block.heartbeat
    block.free_chunks([1])
    assert block.heartbeat > heartbeat  # freeing is a sign of life
    assert list(block.chunk_states()[:2]) == [layout.CHUNK_FULL, layout.CHUNK_FREE]
    assert block.ring_drained == 0
    block.free_chunks([])
    assert block.ring_drained == 0


@pytest.mark.parametrize("freed", [[0, 1, 2], [1, 2, 3], [0, 2, 3], [2, 0]])
def test_freed_chunks_have_no_number(block: ControlBlock, freed: list[int]) -> None:
    assert block.chunks >= 4
    for index in range(4):
        block.set_chunk_state(index, layout.CHUNK_FULL)
        block.chunk(index)[:16] = b"\xff" * 16
    taken = block.chunk_states()[4:]
    block.free_chunks(freed)
    for index in range(4):
        state = layout.CHUNK_FREE if index in freed else layout.CHUNK_FULL
        number = bytes(8) if index in freed else b"\xff" * 8
        assert block.chunk_states()[index] == state
        assert bytes(block.chunk(index)[:16]) == number + b"\xff" * 8
    assert block.chunk_states()[4:] == taken


@pytest.mark.parametrize("field", ["magic", "wire_version", "control_size"])
def test_a_foreign_file_is_a_format_error(block: ControlBlock, field: str) -> None:
    setattr(block, field, 12345)
    descriptor, again = os.dup(block.fd), PlanFile(os.dup(block.plan.fd))
    with pytest.raises(FormatError) as caught:
        ControlBlock(descriptor, again)
    assert caught.value.field == field
    assert caught.value.offset == layout.CONTROL.offset(field)


@pytest.mark.parametrize("field", ["magic", "head_size", "chunks"])
def test_a_foreign_plan_is_a_format_error(block: ControlBlock, field: str) -> None:
    block.plan.set_field(field, 12345)
    descriptor, again = os.dup(block.fd), PlanFile(os.dup(block.plan.fd))
    with pytest.raises(FormatError) as caught:
        ControlBlock(descriptor, again)
    assert caught.value.field == field
    assert caught.value.offset == layout.PLAN_HEAD.offset(field)


def test_a_section_outside_the_file_is_a_format_error(block: ControlBlock) -> None:
    block.plan.write(layout.PLAN_HEAD.offset("section") + 8, b"\xff" * 8)
    descriptor, again = os.dup(block.fd), PlanFile(os.dup(block.plan.fd))
    with pytest.raises(FormatError, match="section"):
        ControlBlock(descriptor, again)


def test_what_the_block_says_moves_nothing(block: ControlBlock) -> None:
    """The target may write what it likes into the first page."""
    before = [block.section(section) for section in range(layout.SECTIONS)]
    block.mapping[8 : layout.PAGE] = b"\xff" * (layout.PAGE - 8)
    assert [block.section(section) for section in range(layout.SECTIONS)] == before
    assert block.chunks == 4
    assert block.instruments == [layout.INSTRUMENT_TRACE]
    assert block.image_count == layout.MAX_IMAGES
    assert block.slot_count == layout.MAX_SLOTS
    assert len(block.rules_matched(layout.INSTRUMENT_TRACE)) == 2


LIMITED = """
import resource, sys
from soscope.errors import AgentError
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan
soft, hard = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
if sys.argv[3] == "nobody":
    import os
    os.setgid(65534)
    os.setuid(65534)
try:
    ControlBlock.create(
        Plan(instruments=[InstrumentPlan(3, rules=b"", functions=b"")], patterns=b"",
             main_path="x", chunks=4))
except AgentError as error:
    print(error, error.errno)
else:
    print("created")
print(resource.getrlimit(resource.RLIMIT_FSIZE) == (soft, hard))
"""


def limited(soft: int, hard: int, user: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(soft), str(hard), user],
        capture_output=True, text=True, check=True, timeout=limit(),
    )  # fmt: skip
    return run.stdout.splitlines()


def test_a_soft_limit_on_file_sizes_is_no_obstacle_and_stays() -> None:
    unlimited = resource.RLIM_INFINITY
    assert limited(4096, unlimited, "self") == ["created", "True"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give up being root")
def test_a_hard_limit_on_file_sizes_is_an_agent_error() -> None:
    said, kept = limited(4096, 8192, "nobody")
    assert "limit on file sizes" in said
    assert kept == "True"


def test_no_room_for_the_mapping_is_an_agent_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, __: int, **___: int) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    descriptors = Path("/proc/self/fd")
    gc.collect()  # what other tests have left open is not to be closed meanwhile
    before = len(list(descriptors.iterdir()))
    with pytest.raises(AgentError, match="cannot map"):
        ControlBlock.create(plan())
    assert len(list(descriptors.iterdir())) == before


@pytest.mark.parametrize("mode", [layout.INSTRUMENT_COUNT, layout.INSTRUMENT_STATS])
def test_a_target_maps_few_count_arrays(mode: int) -> None:
    """Those lie at the end of the file."""
    width = layout.STATS.size if mode == layout.INSTRUMENT_STATS else 8
    for arrays in (1, 2, 5):
        block = ControlBlock.create(plan(mode, chunks=0, count_arrays=arrays))
        offset, size = block.section(layout.SEC_COUNTS)
        assert offset + size == block.size
        assert block.target_size == offset + min(arrays, 2) * layout.MAX_SLOTS * width
        block.close()


def test_looking_for_counts_makes_no_pages() -> None:
    """Of hundreds of arrays most may be empty, and each is as long as there are slots."""
    block = ControlBlock.create(plan(layout.INSTRUMENT_COUNT, chunks=0, count_arrays=400))
    offset, _ = block.section(layout.SEC_COUNTS)
    put = layout.CONTROL.offset
    block._u32[put("slots") // 4] = 40_000
    block._u32[put("counts_used") // 4] = 399
    for array, slot in ((0, 3), (7, 3), (7, 30_000), (399, 39_999)):
        block._u64[offset // 8 + array * layout.MAX_SLOTS + slot] = 5
    before = os.fstat(block.fd).st_blocks
    assert block.counts() == {3: 10, 30_000: 5, 39_999: 5}
    assert os.fstat(block.fd).st_blocks == before
    block.close()


TIMES = ("waited_room", "waited_exec", "waited_look", "stood_still", "delayed", "delays_over")
WORK = ("took_chunks", "took_images", "took_asking", "took_works")
COUNTS = ("dropped_exits", "slots_left", "images_dropped", "slots_dropped", "unanswered", "works")


@pytest.mark.parametrize("name", [*TIMES, *WORK, *COUNTS])
def test_a_sum_that_cannot_be_is_damage_and_no_number(name: str, block: ControlBlock) -> None:
    second = 1_000_000_000
    setattr(block, name, 1000 if name in COUNTS else 3 * second)
    assert getattr(block, name)
    assert not block.damaged_sums()
    setattr(block, name, 0x7FFF_FFFF_FFFF_FFFF)
    assert getattr(block, name) == 0
    assert block.damaged_sums() == {name}
    setattr(block, name, 7)  # nobody knows what it should be
    assert getattr(block, name) == 0


def test_losses_that_cannot_be_are_damage_and_no_number(block: ControlBlock) -> None:
    start = layout.CONTROL.offset("dropped")
    for kind, count in enumerate((17, 0xFFFF_FFFF_FFFF)):
        block.mapping[start + 8 * kind : start + 8 * kind + 8] = count.to_bytes(8, "little")
    assert block.dropped[:3] == (17, 0, 0)
    assert block.damaged_sums() == {"dropped 1"}


def test_what_the_agent_writes_once_stays_what_it_was(block: ControlBlock) -> None:
    block.tsc_start, block.cost_inner, block.cost_outer = 5_000, 30, 0x7FFF_FFFF
    block.cost_call = 0xFFFF_FFFF
    block.keep_written()
    assert (block.cost_inner, block.cost_outer, block.cost_call) == (30, 0, 0)
    assert block.damaged_sums() == {"cost_outer", "cost_call"}
    block.tsc_start = block.cost_inner = 1
    assert (block.tsc_start, block.cost_inner) == (5_000, 30)


@pytest.mark.parametrize(
    "cell",
    [
        (1 << 61, 1, 0, 10, 6, 5, 10),
        (1, 1 << 61, 0, 10, 6, 5, 10),
        (2, 2, 0, 1 << 61, 6, 1 << 60, 10),
        (2, 2, 0, 1 << 61, 6, 5, 10),
        (2, 2, 0, 10, 6, 5, 1 << 61),
    ],
)
def test_a_call_that_takes_longer_than_the_session_is_in_no_statistics(
    cell: tuple[int, ...],
) -> None:
    block = ControlBlock.create(plan(layout.INSTRUMENT_STATS, chunks=0, count_arrays=1))
    try:
        block.slot_count = 2
        at = block.section(layout.SEC_COUNTS)[0] // 8
        good = (3, 3, 0, 30, 6, 15, 20)
        for index, words in enumerate((good, cell)):
            start = at + index * layout.STATS.size // 8
            for offset, word in enumerate(words):
                block.words[start + offset] = word
        assert block.stats() == {0: (3, 3, 0, 30, 5, 15, 20)}
        assert block.spoiled_counts() == 1
    finally:
        block.close()

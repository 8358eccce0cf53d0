# SPDX-License-Identifier: Apache-2.0
"""The file: written, read, growing, damaged, and on a disk that is full."""

from __future__ import annotations

import errno
import json
import os
import stat
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.errors import FormatError, RecordingError
from soscope.model.call import Dropped, Entry, ProcessExit, ProcessStart, Signal
from soscope.recording import format as form
from soscope.recording import writer as writer_module
from soscope.recording.drain import Feed
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import events
from soscope.recording.writer import Writer
from soscope.wire import layout
from tests.unit.recording.fake import EPOCH, FakeAgent, FakeSampler, make_block


def make_writer(path: Path, **more: object) -> Writer:
    return Writer(
        str(path),
        command=["program", "naïve\udcff"],
        options={"when_full": "block"},
        versions={"soscope": "0"},
        start_ns=EPOCH,
        **more,  # type: ignore[arg-type]  # as Writer takes them
    )


class Recorded:
    """A fake target that is recorded into a file."""

    def __init__(self, path: Path, **more: object) -> None:
        self.path = path
        self.writer = make_writer(path, **more)
        self.sampler = FakeSampler()
        self.feed = Feed(self.writer, self.sampler)
        self.block = make_block(16)
        self.agent = FakeAgent(self.block)
        self.feed.add(self.block, "/bin/program", 100)
        self.agent.image("program", flags=layout.IMAGE_MAIN)
        self.agent.image("libc.so.6")
        self.slot = self.agent.slot("malloc", error_rule=layout.ERROR_NULL)
        self.thread = self.agent.thread()

    def call(self, times: int = 1) -> None:
        for _ in range(times):
            self.thread.enter(self.slot, 1000, arg0=5)
            self.thread.leave(self.slot, 1000)

    def tick(self) -> None:
        self.sampler.now = self.thread.tsc
        self.feed.drain()

    def finish(self) -> None:
        self.sampler.now = self.thread.tsc + 1000
        self.feed.event(ProcessStart(EPOCH, 100, "start", None, "/bin/program"))
        self.feed.event(Signal(EPOCH + 1, 100, 100, 2))
        self.feed.event(ProcessExit(EPOCH + (1 << 40), 100, None, 9))
        self.feed.finish()
        self.writer.end(complete=True, why="exit", signal=9, totals={"calls": 1})
        for drainer in self.feed.drainers:
            drainer.close()
        self.block.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sosr"


def record(path: Path, calls: int = 1000) -> bytes:
    recorded = Recorded(path)
    for _ in range(4):
        recorded.call(calls // 4)
        recorded.tick()
    recorded.finish()
    return path.read_bytes()


def offsets(data: bytes) -> list[tuple[int, int, int]]:
    """Return (type, offset, bytes in the file) of all blocks."""
    found = []
    at = 0
    while at < len(data):
        _, kind, length, _, _ = form.HEADER.unpack_from(data, at)
        found.append((kind, at, form.padded(length)))
        at += form.padded(length)
    return found


def count(recording: RecordingFile) -> int:
    return sum(isinstance(event, Entry) for event in events(recording))


def test_a_recording_says_everything(path: Path) -> None:
    record(path)
    with RecordingFile.open(path) as recording:
        assert recording.meta["command"] == ["program", "naïve\udcff"]
        assert recording.meta["schema"] == "soscope/recording/1"
        assert recording.meta["start_ns"] == EPOCH
        assert [image.name for image in recording.images] == ["program", "libc.so.6"]
        assert recording.images[0].path == "/bin/program"
        assert [slot.symbol for slot in recording.slots] == ["malloc"]
        assert recording.program(0).facts["instruments"] == [layout.INSTRUMENT_TRACE]
        assert [event.values() for event in recording.events] == [
            ProcessStart(EPOCH, 100, "start", None, "/bin/program").values(),
            Signal(EPOCH + 1, 100, 100, 2).values(),
            ProcessExit(EPOCH + (1 << 40), 100, None, 9).values(),
        ]
        assert recording.complete
        assert recording.damage is None
        assert recording.why == "exit"
        assert recording.end is not None
        assert recording.end["signal"] == 9
        assert count(recording) == 1000
        assert count(recording) == 1000  # as often as one likes
        first = next(event for event in events(recording) if isinstance(event, Entry))
        assert first.slot is recording.slots[0]


def test_only_the_owner_may_read_it(path: Path) -> None:
    path.touch(0o666)
    path.chmod(0o666)
    record(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_blocks_are_aligned(path: Path) -> None:
    data = record(path)
    assert all(offset % 8 == 0 for _, offset, _ in offsets(data))
    kinds = [kind for kind, _, _ in offsets(data)]
    assert kinds[0] == form.META
    assert kinds[-1] == form.END
    for names in (form.IMAGES, form.SLOTS, form.STRINGS):
        assert kinds.index(names) < kinds.index(form.CHUNKS)


def test_a_growing_file_is_read_as_far_as_it_goes(path: Path) -> None:
    recorded = Recorded(path)
    recorded.call(1000)
    recorded.tick()
    recording = RecordingFile.open(path)
    assert not recording.complete
    assert recording.damage is None
    before = count(recording)
    assert before == 1000
    recorded.call(1000)
    recorded.finish()
    assert recording.refresh()
    assert recording.complete
    assert count(recording) == 2000
    assert not recording.refresh()
    recording.close()


def test_half_a_block_is_damage_until_the_rest_is_there(path: Path, tmp_path: Path) -> None:
    data = record(path)
    _, offset, size = offsets(data)[-3]
    part = tmp_path / "part.sosr"
    part.write_bytes(data[: offset + size - 8])
    recording = RecordingFile.open(part)
    assert recording.damage is not None
    assert f"offset {offset}" in recording.damage
    part.write_bytes(data)
    assert recording.refresh()
    assert recording.damage is None
    assert recording.complete


@pytest.mark.parametrize("where", range(0, 100, 7))
def test_a_truncated_file_reads_up_to_the_cut(path: Path, where: int) -> None:
    data = record(path)
    blocks = offsets(data)
    end = blocks[0][2] + (len(data) - blocks[0][2]) * where // 100
    path.write_bytes(data[:end])
    whole = [offset + size for _, offset, size in blocks if offset + size <= end]
    with RecordingFile.open(path) as recording:
        assert not recording.complete
        if end == whole[-1]:
            assert recording.damage is None
        else:
            assert recording.damage is not None
            assert f"offset {whole[-1]}:" in recording.damage
        assert count(recording) <= 1000


def test_a_flipped_bit_stops_the_reader_there(path: Path) -> None:
    data = record(path)
    for kind, offset, size in offsets(data)[1:]:
        last = form.HEADER.unpack_from(data, offset)[2] - 1
        for at in {offset, offset + 4, offset + 16, offset + 24, offset + 24 + last}:
            if at >= offset + size:
                continue
            flipped = bytearray(data)
            flipped[at] ^= 0x10
            path.write_bytes(flipped)
            with RecordingFile.open(path) as recording:
                found = count(recording)
                assert recording.damage is not None, (kind, at)
                assert f"offset {offset}:" in recording.damage
                assert not recording.complete
                assert found <= 1000


def test_sums_that_were_whole_are_damage_if_they_are_not(path: Path) -> None:
    """The older ones are there, and are not what was said last."""
    writer = make_writer(path)
    writer.sums(b"older")
    writer.sums(b"newer")
    half = path.read_bytes()
    writer.end(complete=True, why="exit")
    data = path.read_bytes()
    newest = max(offset for kind, offset, _ in offsets(data) if kind == form.SUMS)
    for content, is_killed in ((data, False), (half, True)):
        spoiled = bytearray(content)
        spoiled[newest + form.HEADER.size + 26] ^= 1
        path.write_bytes(spoiled)
        with RecordingFile.open(path) as recording:
            assert recording.sums == b"older"
            assert (recording.damage is None) == is_killed
            assert not recording.complete
    path.write_bytes(data)
    with RecordingFile.open(path) as recording:
        assert (recording.sums, recording.complete) == (b"newer", True)


def test_what_a_program_has_written_over_is_in_the_file(path: Path) -> None:
    writer = make_writer(path)
    for count in (3, 5):
        writer.spoiled(0, count)
    writer.spoiled(1, 2)
    writer.end(complete=True, why="exit")
    with RecordingFile.open(path) as recording:
        assert recording.losses.spoiled == 7
        (lost,) = events(recording)
        assert isinstance(lost, Dropped)
        assert lost.count == 7
        assert "has written over" in lost.why


def test_a_page_that_was_lost_is_damage(path: Path) -> None:
    """A file system may give zeros for a page that it had not written when the power went."""
    data = record(path)
    for kind, offset, size in offsets(data):
        for at in range(-(-offset // 4096) * 4096, offset + size - 4095, 4096):
            lost = bytearray(data)
            lost[at : at + 4096] = bytes(4096)
            path.write_bytes(lost)
            with RecordingFile.open(path) as recording:
                assert count(recording) < 1000
                assert f"offset {offset}:" in (recording.damage or ""), (kind, at)
                assert not recording.complete


def test_a_block_of_an_unknown_type_is_skipped(path: Path) -> None:
    data = record(path)
    blocks = offsets(data)
    extra = b"".join(form.block(4711, b"what is this"))
    at = blocks[3][1]
    path.write_bytes(data[:at] + extra + data[at:])
    with RecordingFile.open(path) as recording:
        assert recording.complete
        assert count(recording) == 1000


def header(kind: int = form.META, length: int = 0, magic: int = form.MAGIC) -> bytes:
    return form.HEADER.pack(magic, kind, length, 0, 0)


def meta(body: bytes) -> bytes:
    return b"".join(form.block(form.META, body))


@pytest.mark.parametrize(
    ("content", "field", "offset"),
    [
        (b"", "magic", 0),
        (b"SOSR", "magic", 0),
        (b"\x7fELF" + bytes(100), "magic", 0),
        (header(kind=form.END), "type", 4),
        (header(length=1 << 40), "length", 8),
        (header(length=1000), "length", 8),
        (header(length=8) + bytes(8), "crc32", 16),
        (meta(b"{"), "meta", 24),
        (meta(b"[]"), "meta", 24),
        (meta(b"[" * 100_000), "meta", 24),
        (meta(b'{"schema":"soscope/recording/2"}'), "schema", 24),
        (meta(b"{}"), "schema", 24),
    ],
)
def test_what_is_no_recording_is_a_format_error(
    path: Path, content: bytes, field: str, offset: int
) -> None:
    path.write_bytes(content)
    before = len(os.listdir("/proc/self/fd"))
    told = f"{field} at offset {offset}|not a recording of soscope$"
    with pytest.raises(FormatError, match=told) as caught:
        RecordingFile.open(path)
    assert (caught.value.field, caught.value.offset) == (field, offset)
    assert len(os.listdir("/proc/self/fd")) == before


MALFORMED = [
    (form.PROGRAM, b"[]"),
    (form.PROGRAM, b'{"index":-5}'),
    (form.PROGRAM, b'{"index":"x"}'),
    (form.PROGRAM, b"\xff"),
    (form.IMAGES, b""),
    (form.IMAGES, struct.pack("<II", 0, 8000) + bytes(layout.IMAGE.size)),
    (form.IMAGES, struct.pack("<II", 1 << 31, 0)),
    (form.SLOTS, struct.pack("<II", 0, 1)),
    (form.STRINGS, struct.pack("<II", 0, 1 << 31) + b"x"),
    (form.CHUNK, b"\0" * 70),
    (form.CHUNK, b"\0" * 73),
    (form.CHUNK, struct.pack("<II", 1 << 30, 0) + bytes(64 + 32)),
    (form.CHUNKS, struct.pack("<II", 0, 1 << 31)),
    (form.CHUNKS, struct.pack("<II", 0, 1)),
    (form.EVENTS, b"{}"),
    (form.EVENTS, b"[1]"),
    (form.EVENTS, b'[{"type":"signal","time_ns":"x","pid":1}]'),
    (form.EVENTS, b'[{"type":"exit","time_ns":1e400,"pid":1}]'),
    (form.EVENTS, b'[{"type":["exit"],"time_ns":1,"pid":1}, 1]'),
    (form.EVENTS, b'[{"type":"exit","time_ns":' + b"9" * 5000 + b',"pid":1}]'),
    (form.CLOCK, b"x"),
    (form.CLOCK, struct.pack("<QQQ", 1, 1 << 63, 1)),
    (form.TROUBLE, struct.pack("<IIQ", 0xFFFF_FFFF, 0, 0)),
    (form.DROPPED, b""),
    (form.LOST, b""),
    (form.COUNTS, b"1234567"),
    (form.COUNTS, b"1234567890"),
    (form.STATS, b"1234567890"),
    (form.END, b"null"),
]


@pytest.mark.parametrize(("kind", "body"), MALFORMED)
def test_a_malformed_block_is_damage_with_its_offset(path: Path, kind: int, body: bytes) -> None:
    data = record(path)
    at = offsets(data)[2][1]
    path.write_bytes(data[:at] + b"".join(form.block(kind, body)) + data[at:])
    with RecordingFile.open(path) as recording:
        list(events(recording))
        assert recording.damage is not None
        assert f"offset {at}:" in recording.damage


@settings(max_examples=200)
@given(body=st.binary(max_size=200), kind=st.integers(1, 16))
def test_no_block_crashes_the_reader(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, kind: int
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a.sosr"
    path.write_bytes(meta(b'{"schema":"soscope/recording/1"}') + b"".join(form.block(kind, body)))
    with RecordingFile.open(path) as recording:
        list(events(recording))
        assert recording.images is not None
        assert recording.slots is not None


@settings(max_examples=100)
@given(units=st.lists(st.binary(min_size=32, max_size=32), max_size=40))
def test_no_unit_crashes_the_decoder(
    tmp_path_factory: pytest.TempPathFactory, units: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a.sosr"
    chunk = layout.CHUNK.struct.pack(1, 2, 3, 4, 5, 0, 0, 0, 0, 0)
    body = struct.pack("<II", 0, 0) + chunk + b"".join(units)
    path.write_bytes(
        meta(b'{"schema":"soscope/recording/1"}') + b"".join(form.block(form.CHUNK, body))
    )
    with RecordingFile.open(path) as recording:
        assert all(hasattr(event, "time_ns") for event in events(recording))


@pytest.mark.parametrize("name", ["missing", ".", "\0"])
def test_what_cannot_be_opened_is_a_recording_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordingError, match="cannot open"):
        RecordingFile.open(str(tmp_path) + "/" + name)


def test_a_pipe_is_no_recording(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(RecordingError, match="not a regular file"):
        RecordingFile.open(fifo)


def test_an_unwritable_place_is_a_recording_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot create recording") as caught:
        make_writer(tmp_path / "missing" / "a.sosr")
    assert caught.value.errno == errno.ENOENT


def test_a_full_device_is_a_recording_error_at_the_start() -> None:
    with pytest.raises(RecordingError, match="No space left"):
        make_writer(Path("/dev/full"))


class Disk:
    """Lets `writev` fail, after `room` bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 40
        self.code = errno.ENOSPC
        self._writev = os.writev
        monkeypatch.setattr(os, "writev", self.writev)
        monkeypatch.setattr(writer_module, "_RETRY", 0.0)

    def writev(self, descriptor: int, buffers: list[bytes]) -> int:
        data = b"".join(buffers)[: self.room]
        if not data:
            raise OSError(self.code, os.strerror(self.code))
        self.room -= len(data)
        return self._writev(descriptor, [data])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EIO])
def test_a_disk_that_is_full_for_a_while_costs_only_that_while(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk = Disk(monkeypatch)
    warnings: list[str] = []
    recorded = Recorded(path, warn=warnings.append)
    recorded.call(500)
    recorded.tick()
    disk.room, disk.code = 3000, code
    recorded.call(600)
    recorded.tick()
    recorded.call(400)
    late = recorded.agent.slot("free")
    recorded.tick()
    assert recorded.writer.lost_entries > 0
    assert path.stat().st_size == recorded.writer.size
    with RecordingFile.open(path) as recording:
        assert recording.damage is None
    disk.room = 1 << 40
    recorded.slot = late
    recorded.call(200)
    recorded.finish()
    assert len(warnings) == 1
    assert os.strerror(code) in warnings[0]
    lost = recorded.writer.lost_entries
    with RecordingFile.open(path) as recording:
        assert recording.damage is None
        assert not recording.complete
        assert count(recording) == 1700 - lost
        assert [slot.symbol for slot in recording.slots] == ["malloc", "free"]
        told = [event for event in events(recording) if isinstance(event, Dropped)]
        assert [event.count for event in told] == [lost, recorded.writer.lost_exits]
        assert recording.end is not None
        assert recording.end["lost"]["entries"] == lost


def test_a_file_that_lost_exits_alone_is_not_complete(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    recorded = Recorded(path)
    recorded.thread.enter(recorded.slot, 1000, arg0=5)
    recorded.tick()
    disk.room = 0
    recorded.thread.leave(recorded.slot, 1000)
    recorded.tick()
    disk.room = 1 << 40
    recorded.finish()
    assert (recorded.writer.lost_entries, recorded.writer.lost_exits) == (0, 1)
    with RecordingFile.open(path) as recording:
        assert not recording.complete


def test_a_disk_that_stays_full_never_raises(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    recorded = Recorded(path)
    recorded.call(500)
    recorded.tick()
    disk.room = 1000
    recorded.call(500)
    recorded.finish()
    assert recorded.writer.trouble is not None
    with RecordingFile.open(path) as recording:
        assert recording.damage is None
        assert not recording.complete
        assert count(recording) == 1000 - recorded.writer.lost_entries


def test_a_block_that_no_reader_would_believe_is_lost(path: Path) -> None:
    recorded = Recorded(path)
    recorded.call(10)
    recorded.tick()
    recorded.writer.objects(0, {"rows": ["x" * (form.MAX_LENGTH + 1)]})
    recorded.call(10)
    recorded.finish()
    assert recorded.writer.lost_bytes > form.MAX_LENGTH
    with RecordingFile.open(path) as recording:
        assert count(recording) == 20
        assert recording.damage is None
        assert not recording.complete


def test_a_vanished_reader_of_a_pipe_never_raises() -> None:
    reading, writing = os.pipe()
    recorded = Recorded(Path(f"/dev/fd/{writing}"))
    os.close(reading)
    os.close(writing)
    recorded.call(1000)
    recorded.finish()
    assert recorded.writer.trouble is not None
    assert recorded.writer.lost_entries == 1000


def test_the_limit_ends_the_recording(path: Path) -> None:
    recorded = Recorded(path, limit=100_000)
    for _ in range(10):
        recorded.call(1000)
        recorded.tick()
    assert recorded.writer.limit_reached
    assert recorded.writer.lost_entries == 0
    recorded.finish()
    with RecordingFile.open(path) as recording:
        assert recording.damage is None
        assert 0 < count(recording) < 10_000
    assert path.stat().st_size < 110_000


def test_counts_and_statistics_are_kept(path: Path) -> None:
    writer = make_writer(path)
    writer.counts(0, {3: 1 << 40, 5: 1})
    writer.stats(1, {7: (1, 2, 3, 4, 5, 6, 3), 9: (1, 0, 0, 0, 0, 0, None)})
    writer.prototypes("int puts(const char *);\n")
    writer.prototypes("int own(void);\n")
    writer.end(complete=True, why="exit", status=0)
    with RecordingFile.open(path) as recording:
        assert recording.counts == {0: {3: 1 << 40, 5: 1}}
        assert recording.stats == {1: {7: (1, 2, 3, 4, 5, 6, 3), 9: (1, 0, 0, 0, 0, 0, None)}}
        assert recording.prototypes == ["int puts(const char *);\n", "int own(void);\n"]


def test_the_format_is_what_its_page_says(path: Path) -> None:
    writer = make_writer(path)
    writer.clock(1, 2, 3)
    writer.close()
    data = path.read_bytes()
    assert data[:4] == b"SOSR"
    magic, kind, length, _, flags = struct.unpack_from("<IIQII", data)
    assert (magic, kind, flags) == (form.MAGIC, 1, 0)
    assert json.loads(data[24 : 24 + length])["schema"] == "soscope/recording/1"
    at = 24 + length + -length % 8
    _, kind, length, _, _ = struct.unpack_from("<IIQII", data, at)
    assert (kind, length) == (19, 16)
    assert data[at + 24 : at + 40] == bytes(16)  # nothing went wrong
    at += 24 + length
    _, kind, length, _, _ = struct.unpack_from("<IIQII", data, at)
    assert (kind, length) == (10, 24)
    assert struct.unpack_from("<QQQ", data, at + 24) == (1, 2, 3)
    assert len(data) == at + 48

# SPDX-License-Identifier: Apache-2.0
"""What /proc says: auxv, maps, stat, status, mem."""

from __future__ import annotations

import ctypes
import os
import struct

import pytest

from soscope.entry.ptrace import RemoteMemory
from soscope.errors import FormatError, NoSuchProcess
from soscope.proc import maps, memory, status

MAPS = b"""\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/a program
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000100000-7f0000200000 r--s 00001000 00:01 42 /memfd:soscope (deleted)
7fff00000000-7fff00021000 rw-p 00000000 00:00 0          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]
"""


def test_the_auxiliary_vector_is_parsed() -> None:
    data = struct.pack("<8Q", 3, 0x40, 7, 0x7F00, 7, 1, 0, 0)
    assert maps.parse_auxv(data) == {3: 0x40, 7: 0x7F00}
    assert maps.parse_auxv(struct.pack("<4I", 7, 5, 0, 0), bits=32) == {7: 5}
    assert maps.read_auxv(os.getpid())[maps.AT_PHENT] == 56


def test_a_vector_without_end_is_a_format_error() -> None:
    for data in (b"", b"1234", struct.pack("<4Q", 3, 4, 5, 6)):
        with pytest.raises(FormatError) as caught:
            maps.parse_auxv(data)
        assert (caught.value.field, caught.value.offset) == ("AT_NULL", len(data))


def test_the_vector_of_a_process_in_execve_is_whole() -> None:
    read = 0
    for _ in range(20):
        pid = os.posix_spawn("/bin/sleep", ["sleep", "0.002"], {})
        while not os.waitpid(pid, os.WNOHANG)[0]:
            try:
                vector = maps.read_auxv(pid)
            except (OSError, FormatError):  # it has ended
                continue
            read += 1
            assert vector.get(maps.AT_BASE)
    assert read


def test_mappings_are_parsed() -> None:
    found = maps.parse(MAPS)
    assert [one.path for one in found] == [
        "/usr/bin/a program",
        "",
        "/memfd:soscope (deleted)",
        "[stack]",
        "[vsyscall]",
    ]
    assert (found[0].start, found[0].end, found[0].flags) == (0x400000, 0x452000, "r-xp")
    assert (found[2].offset, found[2].inode) == (0x1000, 42)
    assert maps.read(os.getpid())


def test_a_gap_is_as_near_as_can_be() -> None:
    found = maps.parse(MAPS)
    near = 0x7F00_0010_0000
    # The gap below is too small with its guard: above comes next.
    assert maps.find_gap(found, near, 0x100000, 1 << 30) == 0x7F00_0020_0000
    below = maps.find_gap(found, 0x7F00_0000_0000, 0x100000, 1 << 30)
    assert below == 0x7F00_0000_0000 - (1 << 20) - 0x100000
    assert maps.find_gap(found, near, 1 << 30, 1 << 20) is None
    assert maps.find_gap([], 0x400000, 1 << 12, 1 << 22) is not None
    low = maps.find_gap(found, 0x400000, 1 << 12, 1 << 30)
    assert low is not None
    assert low >= 1 << 16


def test_stat_is_parsed_whatever_the_name() -> None:
    tail = " ".join(map(str, range(4, 53)))
    stat = status.Stat(f"17 (a) R 1 (b) S 3 {tail}".encode())
    assert (stat.pid, stat.state, stat.parent, stat.group, stat.session) == (17, "S", 3, 4, 5)
    assert (stat.tty, stat.start) == (6, 21)
    assert status.read_stat(os.getpid()).pid == os.getpid()


def test_status_is_parsed() -> None:
    fields = status.read_status(os.getpid())
    assert int(fields["Tgid"]) == os.getpid()
    assert status.program_path(os.getpid()) == os.path.realpath("/proc/self/exe")


def test_a_process_that_is_not_there() -> None:
    for read in (status.read_stat, status.read_status):
        with pytest.raises(NoSuchProcess):
            read(1 << 30)
    assert status.program_path(1 << 30) == ""


def test_memory_is_read_and_written() -> None:
    buffer = ctypes.create_string_buffer(b"0123456789", 16)
    addr = ctypes.addressof(buffer)
    memory = RemoteMemory(os.getpid())
    try:
        assert memory.read(addr, 10) == b"0123456789"
        memory.write(addr + 2, b"xy")
        assert buffer.raw[:5] == b"01xy4"
        assert memory.word(addr) == int.from_bytes(buffer.raw[:8], "little")
        assert memory.read(8, 8) == b""
        assert memory.read(1 << 70, 8) == b""
        assert memory.read(-8, 8) == b""
        assert memory.read(addr, 0) == b""
        with pytest.raises(OSError, match="no memory"):
            memory.word(8)
        with pytest.raises(OSError):  # noqa: PT011  the kernel's own message
            memory.write(8, b"12345678")
    finally:
        memory.close()
        memory.close()


def test_reading_ends_where_memory_ends() -> None:
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    view = (ctypes.c_char * (2 * page)).from_buffer(area)
    addr = ctypes.addressof(view)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    memory = RemoteMemory(os.getpid())
    try:
        libc.munmap(ctypes.c_void_p(addr + page), ctypes.c_size_t(page))
        assert memory.read(addr + page - 16, 64) == bytes(16)
    finally:
        memory.close()
        # Give the page back, or the end of `area` would unmap somebody else's.
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap(ctypes.c_void_p(addr + page), ctypes.c_size_t(page), 3, 0x32, -1, 0)
        del view
        area.close()


def test_valgrind_is_told_from_other_static_programs() -> None:
    for path, why in (
        ("/usr/libexec/valgrind/memcheck-amd64-linux", "valgrind runs a translation"),
        ("/opt/valgrind/lib/valgrind/massif-amd64-linux", "valgrind runs a translation"),
        ("/usr/bin/valgrind-like", "it is statically linked"),
        ("", "it is statically linked"),
    ):
        assert status.in_full(status.static(path)).startswith(why)


def test_the_mapping_of_an_address() -> None:
    mappings = maps.read(os.getpid())
    for mapping in mappings:
        for addr in (mapping.start, mapping.end - 1):
            assert maps.containing(mappings, addr) is mapping
    gaps = {mapping.end for mapping in mappings} - {mapping.start for mapping in mappings}
    assert gaps
    for addr in (0, mappings[0].start - 1, *gaps):
        assert maps.containing(mappings, addr) is None
    assert maps.containing([], 1) is None


def test_a_read_takes_no_more_memory_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST", 1 << 16)
    size = 1 << 20
    block = ctypes.create_string_buffer(b"x" * size)
    own = memory.ProcessMemory(os.getpid())
    assert len(own.read(ctypes.addressof(block), size)) == 1 << 16
    own.close()

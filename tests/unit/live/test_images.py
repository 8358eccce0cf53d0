# SPDX-License-Identifier: Apache-2.0
"""The images of a process, against what its own loader says of them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from soscope.errors import NoSuchProcess, SoscopeError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import find_images
from soscope.live.images.space import Space
from soscope.live.process import Process
from soscope.proc import maps
from tests.support.files.elfwriter import Sym, Writer
from tests.support.machines.tools import kernel_thread
from tests.support.processes.leftovers import closing
from tests.support.time.patience import until, within_cpu

Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_size_t), ctypes.c_size_t, ctypes.c_void_p
)


def our_images() -> list[tuple[int, str]]:
    """Return (load bias, l_name) of this process's images, as its loader tells them."""
    found: list[tuple[int, str]] = []

    def take(info: ctypes.Array[ctypes.c_size_t], _size: int, _data: int) -> int:
        text = ctypes.string_at(info[1])
        found.append((info[0], os.fsdecode(text)))
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(Callback(take), None)
    return found


def _image_count(pid: int) -> int:
    with Process(pid) as process:
        return len(process.images)


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        until(lambda: _image_count(process.pid) >= 3, "its loader has loaded all")
        yield process.pid
        process.kill()


def test_the_images_are_those_that_the_loader_has_in_its_order() -> None:
    images = find_images(closing(Space(os.getpid())))
    truth = our_images()
    assert [(one.load_bias, one.loader_name) for one in images.linked] == truth
    assert images.main.is_main
    assert os.path.samefile(images.main.path, "/proc/self/exe")
    assert not images.is_guessed


def test_the_scope_is_the_loaders_own_list() -> None:
    images = find_images(closing(Space(os.getpid())))
    scope = images.scope()
    assert not images.scope_is_guessed
    assert scope[0] is images.main
    assert any(image.is_called("libc.so.6") for image in scope)
    assert not any(image.is_vdso for image in scope)


def test_an_image_is_found_by_address_and_its_file_is_the_mapped_one() -> None:
    images = find_images(closing(Space(os.getpid())))
    libc = images.named("libc.so.6")[0]
    # by its handle: in a program at fixed addresses, malloc may be at a stub of the program
    addr = ctypes.cast(ctypes.CDLL("libc.so.6").malloc, ctypes.c_void_p).value or 0
    assert images.at(addr) is libc
    assert libc.executes(addr)
    assert libc.file is not None
    assert libc.file.inode == os.stat(libc.path).st_ino
    assert libc.file.build_id == libc.elf.build_id != b""
    assert images.at(0x10) is None


def test_after_the_end_nothing_is_read(sleeper: int) -> None:
    space = closing(Space(sleeper))
    images = find_images(space)
    head = images.main.ranges[0][0]
    assert space.read(head, 4) == b"\x7fELF"
    os.kill(sleeper, 9)
    until(lambda: not space.read(head, 4), "its memory is gone")
    with pytest.raises(NoSuchProcess, match="ended"):
        space.check()
    assert space.read(head, 4) == b""
    with pytest.raises(NoSuchProcess):
        Space(sleeper)


def _has_nothing(space: Space, addr: int) -> bool:
    return not space.read(addr, 4)


def test_a_process_on_its_way_out_has_ended() -> None:
    """Its memory is gone before it is a zombie; that is no exec."""
    for _ in range(60):
        with subprocess.Popen(["sleep", "60"]) as child, Process(child.pid) as process:
            head = process.picture.main.ranges[0][0]
            child.kill()
            until(partial(_has_nothing, process.space, head), "its memory is gone", pause=0.0)
            with pytest.raises(NoSuchProcess, match="has ended"):
                process.read(head, 4)


def test_a_kernel_thread_is_refused_with_the_reason() -> None:
    with pytest.raises(SoscopeError, match="kernel thread"):
        Space(kernel_thread())


def test_a_path_may_hold_everything_but_a_newline() -> None:
    text = b"7f0000-7f1000 r-xp 00001000 fe:00 7  /tmp/a b \r c.so \n"
    (mapping,) = maps.parse(text)
    assert mapping.path == "/tmp/a b \r c.so "


def test_an_image_that_is_half_there_has_neither_segments_nor_file() -> None:
    """The loader may be about to fill in an entry of its list."""
    found = LoadedImage(closing(Space(os.getpid())), 0, 0, 0, 0, link_map=0x1000)
    assert (found.segments, found.mapping, found.file) == ([], None, None)


MAPPED = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    kept = [
        mmap.mmap(file.fileno(), 8192, mmap.MAP_PRIVATE, mmap.PROT_READ | access)
        for access in [mmap.PROT_EXEC] * int(sys.argv[2]) + [0]
    ]
print("ready", flush=True)
sys.stdin.read()
"""


def test_thousands_of_images_that_no_list_names(tmp_path: Path) -> None:
    """Each is found once, by rising address; one that is mapped without its code is none."""
    count = 2000
    writer = Writer()
    writer.symbols([Sym("inside", 0x100)])
    file = tmp_path / "image"
    file.write_bytes(writer.build().ljust(8192, b"\0"))
    with subprocess.Popen(
        [sys.executable, "-c", MAPPED, file, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with within_cpu(3):
            images = find_images(closing(Space(child.pid)))
            found = [one for one in images.all if one.path == str(file)]
        truth = [
            one.start for one in maps.read(child.pid) if one.path == str(file) and "x" in one.flags
        ]
        child.communicate("")
    assert [one.load_bias for one in found] == truth
    assert len(truth) == count
    assert [one.index for one in images.all] == list(range(len(images.all)))
    assert [one.mappings[0].start for one in found] == truth

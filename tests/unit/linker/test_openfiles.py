# SPDX-License-Identifier: Apache-2.0
"""Descriptors: few are open however many files are read, and only regular files are opened."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import soscope
from soscope.errors import FormatError
from soscope.linker import providers, search, system
from soscope.linker.collect import files_below, images_of
from soscope.linker.image import Image
from soscope.linker.library import OwnedFile, open_image
from tests.support.files.elffiles import built
from tests.support.machines.tools import need
from tests.support.processes.launching import environment
from tests.support.processes.run import run

_MANY = 60
_TEXT = "int main(void) { return 0; }"


@pytest.fixture
def nothing_known() -> Iterator[None]:
    """As a first run: nothing is known of any library."""
    systems, scopes = dict(search._systems), dict(providers._scopes)
    search._systems.clear()
    providers._scopes.clear()
    gc.disable()  # files are not to wait for it
    yield
    gc.enable()
    search._systems.update(systems)
    providers._scopes.update(scopes)


def _open() -> int:
    return len(os.listdir("/proc/self/fd"))


def _programs() -> list[str]:
    found = sorted({os.path.realpath(one) for one in files_below(["/usr/bin"])})
    return found[:: len(found) // _MANY]


@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize(
    "read",
    [
        lambda image: [one.provider for one in image.slots],
        lambda image: [image.where(one) for one in image.needed],
    ],
    ids=["providers", "places"],
)
def test_what_is_remembered_keeps_no_file_open(read: Callable[[Image], object]) -> None:
    paths = _programs()
    assert len(paths) >= _MANY
    before = most = _open()
    for image, _ in images_of(paths):
        if image is not None:
            read(image)
        most = max(most, _open())
    image = None
    assert providers._scopes
    assert _open() == before
    assert most <= before + 3


def test_images_that_somebody_keeps_have_their_files_closed() -> None:
    before = _open()
    kept = [image for image, _ in images_of(_programs()) if image is not None]
    assert len(kept) > _MANY // 2
    assert _open() <= before + 1
    assert sum(len(one.slots) for one in kept) > 1000  # opened again


def test_a_file_that_was_closed_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    path = Path(shutil.copy(need("/bin/true"), tmp_path / "true"))
    source = OwnedFile(str(path))
    assert source.read(0, 4) == b"\x7fELF"
    source.rest()
    source.rest()
    assert source.read(0, 4) == b"\x7fELF"
    source.rest()
    path.rename(tmp_path / "old")
    shutil.copy(tmp_path / "old", path)
    with pytest.raises(OSError, match="file handle"):
        source.read(0, 4)
    os.mkfifo(tmp_path / "fifo")
    os.rename(tmp_path / "fifo", path)
    with pytest.raises(OSError, match="file handle"):
        source.read(0, 4)


@pytest.mark.parametrize("words", [("--needed",), ("--json",)])
def test_few_descriptors_are_enough(words: tuple[str, ...]) -> None:
    paths = [os.path.realpath(need(name)) for name in ("gdb", "ls", "curl")]
    command = [sys.executable, "-m", "soscope", "map", *words, *paths]
    usual = run(command, env=environment())
    assert usual.returncode == 0
    few = run(["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", *command], env=environment())
    assert (few.returncode, few.stderr) == (0, usual.stderr)
    assert few.stdout == usual.stdout


@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("which", ["libc.so.6", "ld.so.cache", "ld-linux-x86-64.so.2"])
def test_want_of_descriptors_is_no_answer(
    which: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = soscope.Image.open(need("/bin/true"))
    names = [one for one in image.slots if not one.defined_here and not one.library]
    really = os.open

    def opened(path: str, *words: int, **more: int) -> int:
        if os.path.basename(path) == which:
            raise OSError(number, os.strerror(number), path)
        return really(path, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        with pytest.raises(OSError, match="open files"):
            image.where("libc.so.6")
    assert os.path.basename(image.where("libc.so.6") or "") == "libc.so.6"
    assert all(one.provider or one.provider_reason for one in names)


@pytest.mark.usefixtures("nothing_known")
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A program names its loader, a sysroot has folders: what is there may be anything."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(end, b"\x7fELF kept")
        place = "/" + "p" * 250
        program = built(tmp_path, "program", _TEXT, f"-Wl,--dynamic-linker={place}")
        data = program.read_bytes()
        program.write_bytes(data.replace(os.fsencode(place), os.fsencode(pipe).ljust(251, b"\0")))
        image = soscope.Image.open(program)
        assert [one.provider for one in image.slots]
        assert system.read(str(pipe)) is None
        assert system.read_cache(str(pipe)) == {}
        with pytest.raises(FormatError, match="not a regular file"):
            open_image(str(pipe))
        assert os.read(end, 100) == b"\x7fELF kept"
    finally:
        os.close(end)


def test_a_device_is_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(os, "open", lambda path, *_: seen.append(path))
    with pytest.raises(FormatError, match="not a regular file"):
        open_image("/dev/null")
    assert not seen


def test_reasons_are_not_made_up_for_want_of_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file itself is closed, and has to be opened again to find out."""
    text = "int f(void) __attribute__((weak)); int main(void) { return f ? f() : 0; }"
    image = soscope.Image.open(built(tmp_path, "program", text, "-fPIC"))
    slot = image.slots["f"]
    image.close()

    def refused(path: str, *_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        with pytest.raises(OSError, match="open files"):
            _ = slot.provider_reason
    assert slot.provider_reason == providers.WEAK

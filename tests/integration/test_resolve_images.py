# SPDX-License-Identifier: Apache-2.0
"""The right image and the right file, whatever became of its name."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from tests.support.machines.tools import namespaces, need, not_here
from tests.support.processes.resolving import LIBRARY, SOURCES, Teller, made, teller

PLAIN = ("-pie", "-fPIE")
TEXT = """
int data = %d; int code(void) { return data; }
static int inner(void) { return 2; }
void *ask(void) { return (void *)inner; }
"""
OTHER = "int pad[999]; int other(void) { return 7; }" + TEXT


def library(name: str = "libfile.so", number: int = 1, *flags: str) -> Path:
    return made(name, TEXT % number, *LIBRARY, *flags)


@pytest.fixture
def running() -> Iterator[Teller]:
    with Teller(teller(*PLAIN)) as one:
        yield one


def assert_looked_up(
    running: Teller, handle: str, *, names: tuple[str, ...] = ("data", "code")
) -> None:
    """Compare exported symbols, a static one, and the way back."""
    for name in names:
        running.check(name, running.tell("handle", handle, name))
    truth = running.tell("call", handle, "ask")
    running.check("inner", truth)
    assert running.process.locate(truth).symbol == "inner"


def image_of(running: Teller, name: str) -> LoadedImage:
    answer = running.process.resolve(name)
    assert answer.image is not None
    return answer.image


def test_a_library_that_was_deleted(running: Teller, tmp_path: Path) -> None:
    copy = tmp_path / "libfile.so"
    shutil.copy(library(), copy)
    handle = running.open(copy)
    copy.unlink()
    assert_looked_up(running, handle)
    assert image_of(running, "data").path == str(copy)


def test_a_library_that_was_replaced_by_another(running: Teller, tmp_path: Path) -> None:
    copy = tmp_path / "libfile.so"
    shutil.copy(library(), copy)
    handle = running.open(copy)
    copy.unlink()
    shutil.copy(made("libfile.so", OTHER % 3, *LIBRARY), copy)
    assert_looked_up(running, handle)
    running.check("other", 0)


def test_a_library_that_was_overwritten_in_place_is_not_believed(
    running: Teller, tmp_path: Path
) -> None:
    """The inode is the same; the build-id in memory is not."""
    copy = tmp_path / "libfile.so"
    shutil.copy(made("libfile.so", TEXT % 1, *LIBRARY, "-Wl,--build-id=0x1234"), copy)
    handle = running.open(copy)
    truth = running.tell("handle", handle, "data")
    other = made("libfile.so", OTHER % 3, *LIBRARY, "-Wl,--build-id=0x5678").read_bytes()
    # A private page that nobody wrote to would change, too: only the end is rewritten.
    size = copy.stat().st_size
    with copy.open("r+b") as file:
        file.seek(size // 4096 * 4096)
        file.write(other[size // 4096 * 4096 : size])
    running.check("data", truth)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name", ["with blank.so", "new\nline.so", "x (deleted)", "tab\tand\rreturn", "grün.so", "a!b"]
)
def test_names_of_files_may_hold_everything(name: str, tmp_path: Path) -> None:
    with Teller(teller(*PLAIN)) as running:
        copy = tmp_path / name
        if "\t" in name:
            copy = tmp_path / name.replace("\t", "\v")
        shutil.copy(library(), copy)
        handle = running.open(copy)
        assert_looked_up(running, handle)
        assert image_of(running, "data").path == str(copy)
        running.check(f"{copy}!data", running.tell("handle", handle, "data"))


def test_relative_names_and_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    shutil.copy(library(), tmp_path / "real" / "libreal.so.1.2")
    (tmp_path / "libalias.so").symlink_to("real/libreal.so.1.2")
    with Teller(teller(*PLAIN), cwd=tmp_path) as running:
        handle = running.open("./libalias.so")
        assert_looked_up(running, handle)
        truth = running.tell("handle", handle, "data")
        for name in ("libalias.so", "libreal.so.1.2", str(tmp_path / "real/libreal.so.1.2")):
            running.check(f"{name}!data", truth)
        assert image_of(running, "data").path == str(tmp_path / "real" / "libreal.so.1.2")


def test_a_library_in_memory_alone(running: Teller) -> None:
    handle = running.say("memfd", library())
    assert_looked_up(running, handle)


def test_a_program_in_memory_alone() -> None:
    program = teller(*PLAIN)
    file = os.memfd_create("in memory", 0)
    try:
        os.write(file, program.read_bytes())
        path = f"/proc/{os.getpid()}/fd/{file}"
        with Teller("teller", executable=path) as running:
            for name in ("own_private", "own_data", "own_tls", "own_public"):
                running.check(name, running.tell("own", name))
            running.check("malloc", running.tell("default", "malloc"))
    finally:
        os.close(file)


def test_a_program_that_was_deleted_and_replaced(tmp_path: Path) -> None:
    copy = tmp_path / "teller"
    shutil.copy(teller(*PLAIN), copy)
    with Teller(copy) as running:
        copy.unlink()
        shutil.copy("/bin/true", copy)
        for name in ("own_private", "own_data", "own_tls", "own_public"):
            running.check(name, running.tell("own", name))
        assert running.process.picture.main.path == str(copy)


def test_a_program_that_its_loader_was_told_to_run() -> None:
    for flags in (PLAIN, ("-no-pie", "-fno-pie")):
        program = teller(*flags)
        done = subprocess.run(
            [need("readelf"), "-l", program], capture_output=True, text=True, check=True
        )
        loader = done.stdout.split("interpreter: ")[1].split("]")[0]
        with Teller(loader, program) as running:
            for name in ("own_private", "own_data", "own_tls", "own_public"):
                running.check(name, running.tell("own", name))
            for name in ("malloc", "memcpy", "stdout", "_r_debug", "nosuch"):
                running.check(name, running.tell("default", name))
            picture = running.process.picture
            assert not picture.scope_is_guessed
            assert picture.main.path == str(program)


def test_a_library_that_is_mapped_as_data_too(running: Teller) -> None:
    first = running.tell("map", library())
    handle = running.open(library())
    second = running.tell("map", library())
    assert first
    assert second
    assert_looked_up(running, handle)
    assert running.process.locate(first).status == "none"


def test_a_library_inside_of_an_archive(tmp_path: Path) -> None:
    """As some loaders map them: at a page's offset of a larger file, by hand."""
    inner = library().read_bytes()
    archive = tmp_path / "archive.zip"
    archive.write_bytes(b"PK" + bytes(8190) + inner + bytes(5000))
    more = (SOURCES / "mapper.h").read_text()
    with Teller(teller(*PLAIN, more=more)) as running:
        base = running.tell("own", str(archive))
        assert base
        picture = running.process.picture
        image = picture.at(base)
        assert image is not None
        assert image.path == str(archive)
        assert image.file is not None
        assert image.file.base == 8192
        answer = running.process.resolve("data")
        assert answer.rule == "memory"
        assert answer.image is image
        symbol = image.elf.symbol("data")
        assert symbol is not None
        assert answer.addr == base + symbol.value
        assert running.process.locate(base + symbol.value).symbol == "data"
        assert running.process.resolve("inner").status == "ok"


@pytest.mark.every(2)
@pytest.mark.parametrize("how", ["none", "garbage", "stripped"])
def test_files_without_section_headers(how: str, running: Teller, tmp_path: Path) -> None:
    copy = tmp_path / "libfile.so"
    shutil.copy(library(), copy)
    if how == "stripped":
        subprocess.run([need("strip"), copy], check=True)
    else:
        content = bytearray(copy.read_bytes())
        content[40:48] = (0 if how == "none" else 0x7FFF_FFFF_FFFF).to_bytes(8, "little")
        if how == "none":
            content[58:64] = bytes(6)
        copy.write_bytes(content)
    handle = running.open(copy)
    for name in ("data", "code"):
        truth = running.tell("handle", handle, name)
        running.check(name, truth)
        assert running.process.locate(truth).symbol == name
    running.check("inner", 0)


def test_a_library_whose_file_cannot_be_had_is_read_from_memory(
    running: Teller, tmp_path: Path
) -> None:
    copy = tmp_path / "libfile.so"
    shutil.copy(library(), copy)
    handle = running.open(copy)
    truth = running.tell("handle", handle, "code")
    copy.unlink()
    # what an ordinary user sees: no map_files, and the path is gone
    from soscope.live.images import image as imagefile

    image = image_of(running, "code")
    before = imagefile._open
    try:
        imagefile._open = lambda *_: None
        assert image.file is None
        assert running.process.resolve("code").addr == truth
        assert running.process.locate(truth).symbol == "code"
    finally:
        imagefile._open = before


def test_another_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        not_here("chroot is for root")
    program = tmp_path / "teller"
    shutil.copy(teller("-static-pie", "-DWITHOUT_DL"), program)
    with Teller(program) as running:
        assert running.say("chroot", tmp_path) == "0"
        for name in ("own_private", "own_data", "own_tls"):
            running.check(name, running.tell("own", name))


def test_the_same_path_in_another_mount_namespace_is_another_file(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        not_here("mount namespaces are for root")
    inside, outside = tmp_path / "inside", tmp_path / "libfile.so"
    inside.mkdir()
    shutil.copy(library(), inside / "libfile.so")
    shutil.copy(made("libfile.so", OTHER % 3, *LIBRARY), outside)
    script = f"mount --bind '{inside}/libfile.so' '{outside}' && exec '{teller(*PLAIN)}'"
    with Teller(*namespaces("-m"), "/bin/sh", "-c", script) as running:
        handle = running.open(outside)
        assert_looked_up(running, handle)
        running.check("other", 0)


@pytest.mark.parametrize("linkage", ["-static", "-static-pie"])
def test_a_static_program_that_loads_libraries(linkage: str) -> None:
    text = TEXT.replace("data", "loaded_data").replace("code", "loaded_code") % 1
    text += "void *malloc(unsigned long); void *beg(void) { return (void *)malloc; }"
    loaded = made("libloaded.so", text, *LIBRARY, "-fno-builtin")
    with Teller(teller(linkage, "-Wl,--no-warnings")) as running:
        own = running.check("malloc", running.process.resolve("malloc").addr or 0).addr
        handle = running.open(loaded)
        assert_looked_up(running, handle, names=("loaded_data", "loaded_code"))
        for name in ("own_private", "own_data", "own_tls"):
            running.check(name, running.tell("own", name))
        # Two C libraries are there now: which malloc is meant cannot be known.
        both = running.check("malloc", 0)
        assert both.status == "ambiguous"
        assert [one.addr for one in both.candidates] == [own, running.tell("call", handle, "beg")]


def test_pictures_name_what_no_list_names(running: Teller) -> None:
    picture: Images = running.process.picture
    assert [one.index for one in picture.all] == list(range(len(picture.all)))
    for image in picture.linked:
        assert image.mappings
        assert picture.at(image.dynamic) is image
        assert image.file is not None or image.is_vdso

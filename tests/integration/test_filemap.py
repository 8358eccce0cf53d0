# SPDX-License-Identifier: Apache-2.0
"""`soscope map FILE` and `soscope.Image`, beside readelf and objdump."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import soscope
from soscope.errors import AmbiguousError, FormatError, SoscopeError
from soscope.verbs.main import main
from tests.support.files.elffiles import built, nm, run
from tests.support.machines.tools import need
from tests.support.macho.machosmall import Small
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.filemap import FILE_MAP
from tests.support.time.patience import limit

_PROGRAMS = ("ls", "bash", "git", "perl", "sqlite3", "gdb")
_FILLED = re.compile(
    r"([0-9a-f]+)  [0-9a-f]+ R_X86_64_(JUMP_SLO|GLOB_DAT|IRELATIV|TLSDESC)\S*\s*"
    r"(?:[0-9a-f]{16} (\S+)|)"
)
_STUB = re.compile(r"^([0-9a-f]+) <(\S+?)(?:@plt)>:$", re.MULTILINE)


def _map(capfd: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    assert main(["map", "--json", *map(str, words)]) == 0
    document: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert not wrong_members(document, FILE_MAP)
    return document


@pytest.mark.parametrize("program", _PROGRAMS)
def test_slots_are_those_of_readelf(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = need(program)
    listed = {}
    for row in _FILLED.finditer(run("readelf", "-rW", path)):
        listed[int(row[1], 16)] = re.sub("@@?", "@", row[3] or "")
    (image,) = _map(capfd, path)["images"]
    found = {}
    for slot in image["slots"]:
        name = slot["symbol"] or ""
        found[int(slot["slot"], 16)] = f"{name}@{slot['version']}" if slot["version"] else name
    assert found == listed
    assert len(found) > 50


@pytest.mark.parametrize("program", _PROGRAMS)
def test_stubs_are_those_of_objdump(program: str) -> None:
    path = need(program)
    sections = [f"-j{one}" for one in (".plt", ".plt.got", ".plt.sec")]
    done = subprocess.run(
        ["objdump", "-d", *sections, path],
        capture_output=True,
        text=True,
        timeout=limit(),
        check=False,
    )  # its status is 1 where one of the sections is not there
    listed = {int(row[1], 16): row[2] for row in _STUB.finditer(done.stdout)}
    image = soscope.Image.open(path)
    found = {
        stub.vaddr: f"{slot.symbol}@{slot.version}" if slot.version else slot.symbol
        for slot in image.slots
        for stub in slot.stubs
    }
    assert {vaddr: name.partition("@")[0] for vaddr, name in found.items()} == {
        vaddr: name.partition("@")[0] for vaddr, name in listed.items()
    }
    assert len(found) > 50
    assert not image.stubs_without_slot


_TEXT = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) { void *p = malloc(count); printf("%p", p); free(p); return 0; }
"""


def test_lines_have_the_same_fields(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = [built(tmp_path, "a program", _TEXT), built(tmp_path, "b", _TEXT, "-Wl,-z,now")]
    for table, fields in (("slots", 8), ("stubs", 7), ("symbols", 7), ("needed", 3)):
        assert main(["map", f"--{table}", *map(str, paths)]) == 0
        rows = [line.split() for line in capfd.readouterr().out.splitlines()]
        assert {len(row) for row in rows} == {fields}
        assert {row[0] for row in rows} > {str(paths[0]).replace(" ", "\\x20"), str(paths[1])}


def test_a_folder_is_walked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").mkdir()
    built(tmp_path, "one", _TEXT)
    shutil.copy(tmp_path / "one", tmp_path / "x" / "two")
    (tmp_path / "x" / "link").symlink_to("two")
    (tmp_path / "x" / "note").write_text("no image")
    paths = [image["path"] for image in _map(capfd, tmp_path)["images"]]
    assert paths == [str(tmp_path / "one"), str(tmp_path / "x" / "two")]


def test_a_table_of_several_files_is_aligned_and_has_no_head_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = built(tmp_path, "a", _TEXT)
    empty = built(tmp_path, "e", "int here;", "-shared", "-nostdlib", "-fPIC")
    odd = tmp_path / os.fsdecode(b"c\xff\n")
    shutil.copy(first, odd)
    with contextlib.chdir(tmp_path):
        assert main(["map", "--slots", "a", empty.name, odd.name]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {"FILE", "a", "c\\xff\\x0a"}
    assert [line.split()[0] for line in lines].count("FILE") == 2
    head, row = lines[:2]
    assert head.index("SLOT") == row.index("0x")


def test_files_of_which_none_is_for_the_architecture(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = built(tmp_path, "one", _TEXT)
    again = Path(shutil.copy(path, tmp_path / "two"))
    for verb in ("map", "check"):
        assert main([verb, "--arch", "arm64", str(path), str(again)]) == 1
        assert capfd.readouterr().err == "soscope: no image for arm64 in 2 files\n"
    assert main(["map", "--arch", "x86-64", str(path), str(again)]) == 0
    assert not capfd.readouterr().err


def test_a_core_file_has_nothing_and_nothing_is_wrong_with_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    core = tmp_path / "core"
    words = ("-ex", "break main", "-ex", "run", "-ex", f"generate-core-file {core}")
    run("gdb", "-batch", *words, built(tmp_path, "one", _TEXT))
    (image,) = _map(capfd, core)["images"]
    assert (image["kind"], image["slots"], image["build_id"]) == ("core", [], None)


def test_what_may_not_be_looked_into_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(tmp_path, "one", _TEXT)
    (tmp_path / "Class.class").write_bytes(b"\xca\xfe\xba\xbe\0\0\0\x41" + bytes(40))
    shut, closed = tmp_path / "shut", tmp_path / "closed"
    shut.mkdir()
    closed.write_text("text")
    scandir, opened = os.scandir, os.open

    def refusing(path: str) -> Any:
        if path == str(shut):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    def refused(path: str, *words: int) -> int:
        if path in (str(closed), str(shut)):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *words)

    monkeypatch.setattr(os, "scandir", refusing)
    monkeypatch.setattr(os, "open", refused)
    assert main(["map", "--slots", str(tmp_path)]) == 1
    told = capfd.readouterr()
    assert told.err == (
        f"soscope: {closed}: permission denied\nsoscope: {shut}: permission denied\n"
    )
    assert "malloc" in told.out


def test_symbols_are_chosen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = built(tmp_path, "one", _TEXT)
    (image,) = _map(capfd, "-e", "*al*c+free", path)["images"]
    assert sorted(slot["symbol"] for slot in image["slots"]) == ["free", "malloc"]
    (image,) = _map(capfd, "--to", "libc.so*", "-e", "f*", path)["images"]
    assert [slot["symbol"] for slot in image["slots"]] == ["free"]
    assert main(["map", "-e", "nobody", str(path)]) == 1
    assert capfd.readouterr().err == "soscope: no slot matches\n"


def test_symbols_of_a_table_are_chosen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """nm says which there are; slots of the same names do not count where no slot is shown."""
    text = (
        "#include <stdlib.h>\nint own_one(void) { return 1; } int own_two(void) { return rand(); }"
    )
    library = built(tmp_path, "library.so", text, "-shared", "-fPIC", "-Wl,-z,lazy")
    defined = [row[3] for row in nm(library, "-D") if row[3].startswith("own_")]
    assert len(defined) == 2
    for words, status, names in (
        (["-e", "own_*"], 0, sorted(defined)),
        (["-e", "own_one+rand"], 0, ["own_one", "rand@GLIBC_2.2.5"]),
        (["-e", "nobody"], 1, []),
        (["-e", "rand", "--to", "libc.so.6"], 0, ["rand@GLIBC_2.2.5"]),
    ):
        assert main(["map", "--symbols", *words, str(library)]) == status
        told = capfd.readouterr()
        assert sorted(line.split()[4] for line in told.out.splitlines()[1:]) == names
        assert told.err == ("soscope: no symbol matches\n" if status else "")


def test_what_cannot_be_read_is_said_and_the_others_are_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = built(tmp_path, "one", _TEXT)
    text = tmp_path / "text"
    text.write_text("nothing of the kind")
    missing = tmp_path / "missing"
    assert main(["map", "--json", str(text), str(missing), str(path)]) == 1
    told = capfd.readouterr()
    assert [image["path"] for image in json.loads(told.out)["images"]] == [str(path)]
    assert told.err == (
        f"soscope: {text}: magic at offset 0x0: neither an ELF nor a Mach-O file\n"
        f"soscope: {missing}: no such file or directory\n"
    )


def test_a_part_of_a_file_is_partial(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = Path(shutil.copy(need("git"), tmp_path / "git"))
    whole = len(soscope.Image.open(path).slots)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 1)  # the last section header
    image = soscope.Image.open(path)
    assert len(image.slots) == whole
    assert [one.partition(":")[0] for one in image.partial] == ["section headers"]
    assert main(["map", str(path)]) == 1
    assert "  partial  section headers" in capfd.readouterr().out


def test_a_file_of_debugging_information_alone_has_no_slots(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = built(tmp_path, "one", _TEXT, "-g")
    alone = tmp_path / "one.debug"
    run("objcopy", "--only-keep-debug", path, alone)
    assert main(["map", "--json", str(alone), str(path)]) == 1
    first, second = json.loads(capfd.readouterr().out)["images"]
    assert not first["slots"]
    assert not first["stubs_without_slot"]
    assert len(first["partial"]) == 1
    assert "only debugging information" in first["partial"][0]
    assert first["build_id"] == second["build_id"]
    assert main(["check", str(alone), str(path)]) == 1
    told = capfd.readouterr()
    assert f"{alone}: partial: its code is in another file" in told.out
    assert "2 images" in told.out
    assert not told.err
    assert main(["explain", str(alone), "malloc"]) == 1
    assert "only debugging information" in capfd.readouterr().err
    assert second["slots"]
    assert not second["partial"]


def test_program_headers_of_a_file_of_debugging_information_are_not_believed(
    tmp_path: Path,
) -> None:
    """Those of eu-strip say what the whole file has at these offsets."""
    path = built(tmp_path, "one", _TEXT, "-Wl,-z,lazy")
    data = bytearray(path.read_bytes())
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<2H", data, 0x3A)
    for header in range(at, at + size * count, size):
        kind, flags = struct.unpack_from("<IQ", data, header + 4)
        if flags & 2 and kind != 7:  # SHF_ALLOC, SHT_NOTE
            struct.pack_into("<I", data, header + 4, 8)  # SHT_NOBITS
    alone = tmp_path / "one.debug"
    alone.write_bytes(data)
    image = soscope.Image.open(alone)
    assert not image.slots
    assert not image.stubs
    assert not image.needed
    assert not image.symbols
    assert len(image.partial) == 1
    assert "only debugging information" in image.partial[0]


@pytest.mark.parametrize("change", [(24, 64), (4, 8)], ids=["sh_offset", "SHT_NOBITS"])
def test_where_a_slot_lies_is_for_the_program_headers_to_say(
    tmp_path: Path, change: tuple[int, int]
) -> None:
    path = built(tmp_path, "one", _TEXT, "-Wl,-z,lazy")
    before = [(one.vaddr, one.section, one.offset) for one in soscope.Image.open(path).slots]
    data = bytearray(path.read_bytes())
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<2H", data, 0x3A)
    for header in range(at, at + size * count, size):
        if struct.unpack_from("<Q", data, header + 8)[0] & 7 == 3:  # SHF_ALLOC, SHF_WRITE
            struct.pack_into("<I", data, header + change[0], change[1])
    path.write_bytes(data)
    after = [(one.vaddr, one.section, one.offset) for one in soscope.Image.open(path).slots]
    assert after == before
    assert {None} != {one[2] for one in after}


def test_a_dynamic_section_that_lies_nowhere_ends_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = built(tmp_path, "one", _TEXT)
    data = bytearray(path.read_bytes())
    for at in range(64, 64 + 56 * data[56], 56):
        if data[at] == 2:  # PT_DYNAMIC
            data[at + 16 : at + 24] = (1 << 40).to_bytes(8, "little")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    assert main(["map", "--json", str(damaged), str(path)]) == 1
    first, second = json.loads(capfd.readouterr().out)["images"]
    assert not first["slots"]
    assert "no PT_LOAD" in first["partial"][0]
    assert second["slots"]


def test_words_that_do_not_fit(capfd: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        ([], "nothing to look at: neither FILE nor -p PID"),
        (["-p", "1", "/bin/ls"], "either -p or files: '/bin/ls'"),
        (["-p", "1", "--stubs"], "--stubs is for files"),
        (["--changed", "/bin/ls"], "--changed is for processes (-p)"),
        (["--svg", "x", "/bin/ls"], "--svg is for processes (-p)"),
    ):
        assert main(["map", *words]) == 2
        assert capfd.readouterr().err.splitlines()[0] == f"soscope: error: {said}"


def test_an_image_from_python(tmp_path: Path) -> None:
    path = built(
        tmp_path,
        "one",
        "#include <stdlib.h>\n#include <math.h>\nvoid *(*volatile keep)(size_t) = 0;\n"
        "int main(int n, char **w) { keep = malloc; free(malloc(n)); return (int)sin(n); }",
        "-lm",
        "-O0",
    )
    image = soscope.Image.open(path)
    assert (image.format, image.arch, image.bits, image.endian) == ("elf", "x86-64", 64, "little")
    assert (image.kind, image.slices, image.path) == ("pie", (image,), str(path))
    assert image.needed == ("libm.so.6", "libc.so.6")
    assert image.slots["sin"].provider == "libm.so.6"
    assert image.slots["sin"] == image.slots.named("sin@GLIBC_2.2.5")[0]
    assert [stub.slot for stub in image.slots["free"].stubs] == [image.slots["free"].vaddr]
    assert {stub for slot in image.slots for stub in slot.stubs} == set(image.stubs)
    assert {one.name for one in image.symbols} >= {"sin", "malloc", "free", "__libc_start_main"}
    with pytest.raises(KeyError):
        image.slots["nobody"]
    with pytest.raises(AttributeError):
        image.slots["sin"].vaddr = 0  # type: ignore[misc]  # what mypy refuses must fail too
    with pytest.raises(AttributeError):
        image.slots = ()  # type: ignore[assignment,misc]  # as above
    with pytest.raises(AttributeError):
        image.note = ""
    with pytest.raises(AttributeError):
        del image.slots
    with pytest.raises(SoscopeError, match="no image for arm64"):
        soscope.Image.open(path, "arm64")
    with pytest.raises(FormatError):
        soscope.Image.open(__file__)


def test_two_slots_of_one_symbol(tmp_path: Path) -> None:
    """LLD gives a function that is called and whose address is taken a slot for each."""
    need("ld.lld")
    path = built(
        tmp_path,
        "two",
        "#include <stdlib.h>\nvoid *(*volatile keep)(size_t);\n"
        "int main(int n, char **w) { keep = malloc; free(malloc(n)); return 0; }",
        "-fuse-ld=lld",
        "-fPIC",
        "-O0",
    )
    image = soscope.Image.open(path)
    found = image.slots.named("malloc")
    assert sorted(one.kind for one in found) == ["R_X86_64_GLOB_DAT", "R_X86_64_JUMP_SLOT"]
    with pytest.raises(AmbiguousError, match="malloc: 2 slots") as caught:
        image.slots["malloc"]
    assert caught.value.candidates == found


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; from soscope.verbs.main import main; main(['map', '/bin/ls'])\n"
        "assert not {'numpy', 'rich', 'json', 'dataclasses', 'subprocess'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=limit(), check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def _macho(cpu: int, name: str) -> bytes:
    small = Small(cpu)
    small.dylib(f"/usr/lib/{name}.dylib")
    return small.built()


def _fat(*images: tuple[int, bytes]) -> bytes:
    """Return a universal file: fat_header and fat_arch of <mach-o/fat.h>, big-endian."""
    head = struct.pack(">II", 0xCAFEBABE, len(images))
    body = b""
    start = 0x1000
    for cpu, image in images:
        head += struct.pack(">IIIII", cpu, 0, start + len(body), len(image), 12)
        body += image + bytes(-len(image) % 0x1000)
    return head + bytes(start - len(head)) + body


def test_images_of_a_universal_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cpus = {"x86_64": 0x0100_0007, "arm64": 0x0100_000C}
    path = tmp_path / "both"
    path.write_bytes(_fat(*((cpu, _macho(cpu, arch)) for arch, cpu in cpus.items())))
    image = soscope.Image.open(path)
    assert [one.arch for one in image.slices] == list(cpus)
    with pytest.raises(AmbiguousError, match="2 images \\(x86_64, arm64\\): say which") as caught:
        _ = image.slots
    assert caught.value.candidates == image.slices
    assert soscope.Image.open(path, "arm64").needed[-1] == "/usr/lib/arm64.dylib"
    found = _map(capfd, path)["images"]
    assert [(one["arch"], one["needed"][-1], one["format"]) for one in found] == [
        (arch, f"/usr/lib/{arch}.dylib", "mach-o") for arch in cpus
    ]
    assert main(["map", "--needed", str(path)]) == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [row[:2] for row in rows if row[1].endswith("64.dylib")] == [
        [f"{path}:{arch}", f"/usr/lib/{arch}.dylib"] for arch in cpus
    ]


def test_an_image_within_another_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"something" * 1000 + _macho(0x0100_000C, "x"))
    assert main(["map", str(path)]) == 1
    assert "neither an ELF nor a Mach-O file" in capfd.readouterr().err
    (image,) = _map(capfd, "--embedded", path)["images"]
    assert (image["path"], image["needed"][-1]) == (f"{path}+0x2328", "/usr/lib/x.dylib")


def test_libraries_are_where_the_loader_finds_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By LD_LIBRARY_PATH; symbols without a version have no other way to their provider."""
    (tmp_path / "here").mkdir()
    library = built(
        tmp_path / "here",
        "libown.so",
        "int own(void) { return 4; }",
        *("-shared", "-fPIC", "-Wl,-soname,libown.so"),
    )
    text = "int own(void); int main(void) { return own(); }"
    path = built(tmp_path, "program", text, str(library))
    slot = soscope.Image.open(path).slots["own"]
    assert (slot.provider, slot.provider_reason) == (None, "libown.so not found, and perhaps there")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "here"))
    assert soscope.Image.open(path).slots["own"].provider == "libown.so"
    assert main(["map", "--needed", str(path)]) == 0
    assert f"libown.so  {library}\n" in capfd.readouterr().out

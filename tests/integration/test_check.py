# SPDX-License-Identifier: Apache-2.0
"""`soscope check`: files are damaged on purpose, each in one place, and it says where."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

import soscope
from soscope.binfmt.elf.filemap import ElfMap
from soscope.verbs.main import main
from tests.support.files.elffiles import built
from tests.support.machines.tools import need
from tests.support.macho.machomade import made
from tests.support.macho.machoshapes import Made, dyld_info
from tests.support.macho.machowriter import fat
from tests.support.processes.run import run
from tests.support.schemas.checked import (
    ADDRESS_OR_NULL,
    NUMBER,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _list_of,
    _object,
    _one_of,
    wrong_members,
)

_FAULT: dict[str, Check] = {
    "slug": TEXT,
    "severity": _one_of("fault", "remark"),
    "message": TEXT,
    "address": ADDRESS_OR_NULL,
    "symbol": TEXT_OR_NULL,
}
_NOT_RUN = _list_of(_object({"stubs": NUMBER, "reason": TEXT}))
_CHECK: dict[str, Check] = {
    "schema": _one_of("soscope/check/1"),
    "images": _list_of(
        _object(
            {
                "path": TEXT,
                "arch": TEXT,
                "partial": _list_of(TEXT),
                "slots": NUMBER,
                "stubs_run": NUMBER_OR_NULL,
                "stubs_not_run": lambda value: value is None or _NOT_RUN(value),
                "faults": _list_of(_object(_FAULT)),
            }
        )
    ),
}
_TEXT = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) { puts(getenv("A")); qsort(words, count, 8, 0); abort(); }
"""


def _check(
    capfd: pytest.CaptureFixture[str], path: Path, *words: str, status: int
) -> list[dict[str, Any]]:
    assert main(["check", "--json", *words, str(path)]) == status
    document = json.loads(capfd.readouterr().out)
    assert not wrong_members(document, _CHECK)
    faults: list[dict[str, Any]] = document["images"][0]["faults"]
    return faults


def _faults(capfd: pytest.CaptureFixture[str], path: Path, *words: str) -> list[tuple[str, Any]]:
    found = _check(capfd, path, *words, status=1)
    return [(one["slug"], one["symbol"]) for one in found if one["severity"] == "fault"]


@pytest.fixture(params=["x86-64", "ibt", "mold"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    flags = {
        "x86-64": ["-Wl,-z,lazy"],
        "ibt": ["-Wl,-z,lazy", "-Wl,-z,ibtplt"],
        "mold": ["-Wl,-z,lazy", "-fuse-ld=mold"],
    }[request.param]
    if request.param == "mold":
        need("mold")
    return built(tmp_path, "program", _TEXT, *flags)


def _offset(image: soscope.Image, vaddr: int) -> int:
    assert isinstance(image.map, ElfMap)
    return image.map.image.locate(vaddr)


def _patch(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_a_sound_file(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("--run",)):
        assert all(one["severity"] == "remark" for one in _check(capfd, program, *words, status=0))


def test_the_resolver_is_given_anothers_place(
    program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a released linker for arm64 does to its helpers, done to one of ours."""
    image = soscope.Image.open(program)
    wrong, right = image.slots["getenv"], image.slots["puts"]
    assert wrong.helper
    assert right.resolver_argument is not None
    data = program.read_bytes()
    number = struct.pack("<I", wrong.resolver_argument or 0)
    # the constant stands in the lazy half, or with mold in the stub
    starts = [_offset(image, one) for one in (wrong.helper, wrong.stubs[0].vaddr)]
    place = min(at for start in starts if 0 < (at := data.find(number, start + 1)) < start + 12)
    _patch(program, place, struct.pack("<I", right.resolver_argument))
    for words in ((), ("--run",)):
        found = _faults(capfd, program, *words)
        assert found[0] == ("wrong-argument", "getenv")
        assert found[1:] == ([("run", "getenv")] if words else [])


def test_a_slot_that_leads_into_anothers_stub(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = built(tmp_path, "program", _TEXT, "-Wl,-z,lazy")
    image = soscope.Image.open(path)
    slot = image.slots["getenv"]
    assert slot.offset is not None
    _patch(path, slot.offset, struct.pack("<Q", image.slots["puts"].helper or 0))
    assert _faults(capfd, path) == [("wrong-argument", "getenv")]
    _patch(path, slot.offset, struct.pack("<Q", image.slots["puts"].stubs[0].vaddr))
    assert _faults(capfd, path) == [("slot-leads-elsewhere", "getenv")]
    _patch(path, slot.offset, bytes(8))
    assert _faults(capfd, path) == [("slot-leads-nowhere", "getenv")]


def test_two_relocations_for_one_slot(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = built(tmp_path, "program", _TEXT, "-Wl,-z,lazy")
    image = soscope.Image.open(path)
    one, other = image.slots["getenv"], image.slots["puts"]
    row = struct.pack("<Q", other.vaddr)
    place = path.read_bytes().index(row)  # r_offset in .rela.plt
    _patch(path, place, struct.pack("<Q", one.vaddr))
    slugs = {slug for slug, _ in _faults(capfd, path)}
    assert slugs >= {"bound-twice", "stub-without-slot"}


def test_stubs_lead_astray(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    image = soscope.Image.open(program)
    stub = image.slots["qsort"].stubs[0]
    start = _offset(image, stub.vaddr)
    code = program.read_bytes()[start : start + stub.size]
    place = start + code.index(b"\xff\x25") + 2
    (distance,) = struct.unpack_from("<i", program.read_bytes(), place)
    _patch(program, place, struct.pack("<i", distance + 0x4000))
    slugs = [slug for slug, _ in _faults(capfd, program)]
    assert sorted(slugs) == ["slot-without-stub", "stub-without-slot"]


@pytest.mark.parametrize(
    ("runpath", "is_fault"),
    [
        ("$ORIGIN", False),
        ("$ORIGIN/open", True),
        ("$ORIGIN/open/missing/deeper", True),
        ("$ORIGIN/missing", False),
        ("/usr/lib", False),
        (".", True),
        ("relative/path", True),
        ("/usr/lib:", True),
        ("$ORIGIN/open/inside", False),
        ("$ORIGIN/shared/inside", True),
        ("$ORIGIN/link", True),
        ("$ORIGIN/shared/way", True),
    ],
)
def test_anybody_may_put_a_library_there(
    runpath: str, is_fault: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, mode in (("open", 0o1777), ("shared", 0o777)):
        (tmp_path / name / "inside").mkdir(parents=True, exist_ok=True)
        os.chmod(tmp_path / name, mode)
    (tmp_path / "link").symlink_to("shared/inside")
    (tmp_path / "shared" / "way").symlink_to("/usr/lib")
    path = built(tmp_path, "program", _TEXT, f"-Wl,-rpath,{runpath}")
    found = [
        one
        for one in _check(capfd, path, status=1 if is_fault else 0)
        if one["slug"] == "writable-search-path"
    ]
    assert bool(found) == is_fault


@pytest.mark.parametrize("tag", ["VERDEF", "GNU_HASH", "SYMTAB", "RELA", "INIT_ARRAY"])
def test_a_table_outside_of_all_segments(
    tag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """readelf says where the entry is; the loader does not survive such a library."""
    versions = tmp_path / "versions"
    versions.write_text("V1 { global: f; local: *; };")
    text = "#include <stdio.h>\nint f(void) { return puts(__func__); }"
    flags = ["-shared", "-fPIC", f"-Wl,--version-script={versions}"]
    library = built(tmp_path, "libold.so", text, *flags)
    assert not _faults_of_sound(capfd, library)
    where = _dynamic_entry(library, tag)
    data = library.read_bytes()
    wrong = struct.unpack_from("<Q", data, where)[0] + 0x100000
    _patch(library, where, struct.pack("<Q", wrong))
    assert run(["ls"], env={**os.environ, "LD_PRELOAD": str(library)}).returncode != 0
    told = [one for one in _check(capfd, library, status=1) if one["slug"] == "table-outside"]
    assert [(one["severity"], one["address"]) for one in told] == [("fault", hex(wrong))]
    assert f"DT_{tag} " in told[0]["message"]


@pytest.mark.parametrize(
    ("tag", "size"), [("HASH", ""), ("INIT_ARRAY", "INIT_ARRAYSZ"), ("FINI_ARRAY", "FINI_ARRAYSZ")]
)
def test_a_table_that_no_loader_reads_may_be_outside(
    tag: str, size: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    library = built(tmp_path, "libold.so", _TEXT, "-shared", "-fPIC", "-Wl,--hash-style=both")
    where = _dynamic_entry(library, tag)
    wrong = struct.unpack_from("<Q", library.read_bytes(), where)[0] + 0x100000
    _patch(library, where, struct.pack("<Q", wrong))
    if size:
        assert _faults_of_sound(capfd, library, status=1) == ["table-outside"]
        _patch(library, _dynamic_entry(library, size), bytes(8))
    assert run(["ls"], env={**os.environ, "LD_PRELOAD": str(library)}).returncode == 0
    assert not _faults_of_sound(capfd, library)


def _faults_of_sound(capfd: pytest.CaptureFixture[str], path: Path, status: int = 0) -> list[str]:
    found = _check(capfd, path, status=status)
    return [one["slug"] for one in found if one["severity"] == "fault"]


def _dynamic_entry(path: Path, tag: str) -> int:
    """Return where in the file the value of a dynamic tag stands."""
    headers = run(["readelf", "-dW", path]).stdout.splitlines()
    start = next(line for line in headers if "Dynamic section at offset" in line)
    first = int(start.split("offset ")[1].split()[0], 16)
    rows = [line.split()[1] for line in headers if line.startswith(" 0x")]
    return first + 16 * rows.index(f"({tag})") + 8


def test_remarks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def remarks(*flags: str, text: str = _TEXT) -> set[str]:
        path = built(tmp_path, "program", text, *flags)
        return {one["slug"] for one in _check(capfd, path, "--strict", "--hardening", status=1)}

    usual = {"no-ibt", "no-shstk"}
    stock = built(tmp_path, "program", _TEXT, "-Wl,-z,now")
    assert _check(capfd, stock, "--strict", status=0) == []
    assert remarks("-Wl,-z,now") == usual
    assert remarks("-Wl,-z,lazy") == {*usual, "writable-got"}
    assert remarks("-Wl,-z,norelro", "-Wl,-z,now") == {*usual, "no-relro"}
    assert remarks("-Wl,-z,now", "-z", "execstack") == {*usual, "executable-stack"}
    program = built(tmp_path, "program", _TEXT, "-Wl,-z,now")
    data = bytearray(program.read_bytes())
    headers, number = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(headers, headers + 56 * number, 56):
        if struct.unpack_from("<I", data, at)[0] == 0x6474E551:  # PT_GNU_STACK
            data[at : at + 4] = bytes(4)
    program.write_bytes(data)
    slugs = {one["slug"] for one in _check(capfd, program, "--strict", status=1)}
    assert slugs == {"unsaid-stack"}
    code = '__asm__(".text\\n.quad puts\\n");' + _TEXT
    found = remarks("-Wl,-z,now", "-Wl,-z,notext", text=code)
    assert found == {*usual, "text-relocations"}


def test_relro_ends_with_a_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The loader protects no page that RELRO does not fill: as the program's own maps say."""
    text = """
        #include <stdio.h>
        #include <string.h>
        int main(void)
        {
            char line[400];
            unsigned long start, end;
            FILE *maps = fopen("/proc/self/maps", "r");
            extern char _GLOBAL_OFFSET_TABLE_[];
            while (fgets(line, sizeof line, maps))
                if (sscanf(line, "%lx-%lx", &start, &end) == 2 &&
                    start <= (unsigned long)_GLOBAL_OFFSET_TABLE_ &&
                    (unsigned long)_GLOBAL_OFFSET_TABLE_ < end)
                    return strstr(line, " rw-p ") ? 1 : 0;
            return 2;
        }"""
    for less in (0, 8):
        path = built(tmp_path, "program", text, "-Wl,-z,now")
        data = bytearray(path.read_bytes())
        headers, number = struct.unpack_from("<Q", data, 32)[0], data[56]
        for at in range(headers, headers + 56 * number, 56):
            if struct.unpack_from("<I", data, at)[0] == 0x6474E552:  # PT_GNU_RELRO
                size = struct.unpack_from("<Q", data, at + 40)[0] - less
                struct.pack_into("<2Q", data, at + 32, size, size)
        path.write_bytes(data)
        said = _check(capfd, path, "--strict", status=1 if less else 0)
        told = [one["message"] for one in said]
        number = len(soscope.Image.open(path).slots)
        whole = f"{number} of {number} slots can be written to while it runs: RELRO leaves them out"
        assert run([path]).returncode == (whole in told) == bool(less)


# ---- symbols that nobody has ----


def _linked(folder: Path, name: str, text: str, *flags: str) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    kind = ["-shared", "-fPIC"] if ".so" in name else ["-Wl,-z,lazy"]
    source = (folder / name).with_suffix(".c")
    source.write_text(text)
    words = ["gcc", "-O1", "-o", name, str(source), *kind, "-Wl,--allow-shlib-undefined", *flags]
    assert run(words, cwd=folder).returncode == 0
    return folder / name


def _nobody_has(capfd: pytest.CaptureFixture[str], path: Path) -> list[str]:
    """Return the messages; each is of one symbol."""
    assert main(["check", "--json", str(path)]) in (0, 1)
    faults = json.loads(capfd.readouterr().out)["images"][0]["faults"]
    return [one["message"] for one in faults if one["slug"] == "no-provider"]


@pytest.mark.parametrize("way", ["environment", "library", "version"])
def test_a_symbol_that_no_library_has(
    way: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader finds another file of a library's name first; the loader itself is asked."""
    old, new = "int old(void) { return 1; }", "int new(void) { return 2; }"
    _linked(tmp_path, "own/libpart.so", old)
    needs = "int old(void); int main(void) { return old(); }"
    paths = ["-Lown", "-lpart", "-Wl,-rpath,$ORIGIN/own"]
    if way == "environment":
        _linked(tmp_path, "other/libpart.so", new)
        program = _linked(tmp_path, "program", needs, *paths)
        assert not _nobody_has(capfd, program)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "other"))
        whose = program
    elif way == "library":
        _linked(tmp_path, "other/libpart.so", new)
        text = "int old(void); int middle(void) { return old(); }"
        rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../other:$ORIGIN"
        whose = _linked(tmp_path, "own/libmiddle.so", text, "-Lown", "-lpart", rpath)
        text = "int middle(void); int main(void) { return middle(); }"
        words = ["-Lown", "-lmiddle", "-Wl,-rpath,$ORIGIN/own"]
        program = _linked(tmp_path, "program", text, *words)
        assert _nobody_has(capfd, whose) == _nobody_has(capfd, program)
    else:
        program = whose = _linked(tmp_path, "program", needs, *paths)
        assert not _nobody_has(capfd, program)
        _linked(tmp_path, "own/libpart.so", new)
    done = run([program])
    assert done.returncode == 127
    assert "undefined symbol: old" in done.stderr
    told = _nobody_has(capfd, program)
    assert len(told) == 1
    assert told[0].startswith(f"no library has old, which {whose} needs")
    passed = {tmp_path / "other/libpart.so", tmp_path / "own/libpart.so"}
    named = {path for path in passed if os.path.normpath(path) in told[0].replace("own/../", "")}
    assert named == (set() if way == "version" else passed)


def test_what_may_stay_undefined_is_no_fault(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Weak symbols; what a program has for its libraries; what whoever loads a library has."""
    text = "int own(void); int f(void) { return own(); }"
    library = _linked(tmp_path, "libasks.so", text)
    weak = "__attribute__((weak)) int maybe(void);"
    text = (
        "int f(void); int own(void) { return 0; } int main(void) { return maybe ? maybe() : f(); }"
    )
    words = ["-L.", "-lasks", "-rdynamic", "-Wl,-rpath,$ORIGIN"]
    program = _linked(tmp_path, "program", weak + text, *words)
    assert run([program]).returncode == 0
    assert not _nobody_has(capfd, library)
    assert not _nobody_has(capfd, program)
    (tmp_path / "libasks.so").unlink()
    assert run([program]).returncode == 127
    assert not _nobody_has(capfd, program)  # the library that is missing may have all of it


def test_what_is_no_image(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text"
    path.write_text("not an image")
    assert main(["check", str(path)]) == 1
    told = capfd.readouterr()
    assert told.out == "0 images, 0 slots: 0 faults, 0 remarks\n"
    assert "neither an ELF nor a Mach-O file" in told.err
    assert main(["check"]) == 2


def test_programs_of_the_system_are_sound(capfd: pytest.CaptureFixture[str]) -> None:
    names = ("ls", "bash", "git", "perl", "sqlite3", "gdb", "cmake", "clang", "node", "ruby")
    paths = [found for name in names if (found := shutil.which(name))]
    assert len(paths) > 5
    assert main(["check", *paths]) == 0
    assert ": fault:" not in capfd.readouterr().out


# ---- Mach-O ----


def _written(folder: Path, image: Made) -> Path:
    path = folder / f"made-{image.arch}"
    path.write_bytes(image.data)
    return path


@pytest.mark.parametrize("arch", ["i386", "x86_64", "armv7", "arm64"])
def test_every_helper_hands_over_the_first_record(
    arch: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a released linker for arm64 writes: the lazy offset is 0 everywhere."""
    image = dyld_info(arch, lazy_offset=0)
    path = _written(tmp_path, image)
    wrong = {row.symbol for row in image.rows if row.argument}
    assert len(wrong) > 5
    found = _check(capfd, path, status=1)
    assert {one["slug"] for one in found} == {"wrong-argument"}
    assert {one["symbol"] for one in found} == wrong
    assert len(found) == len(wrong)
    assert main(["check", str(path)]) == 1
    lines = capfd.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith(f"{path}: fault: wrong-argument: ")]
    assert len(told) == len(lines) - 1 == len(wrong)
    assert all(f" of {name} gives the resolver 0x0, " in "".join(told) for name in wrong)
    assert lines[-1].endswith(f": {len(wrong)} faults, 0 remarks")
    run = _check(capfd, path, "--run", status=1)
    assert {one["symbol"] for one in run if one["slug"] == "run"} == wrong
    assert len(run) == 2 * len(wrong)


@pytest.mark.parametrize(
    "name",
    [
        "classic-i386-pic-dylib",
        "classic-ppc-stub1-executable",
        "info-x86_64-dylib",
        "info-armv7-dylib",
        "chained-arm64-6-1",
        "chained-arm64e-12-3",
        "objc-arm64-small",
    ],
)
def test_sound_stubs_of_mach_o_images_are_run(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    image = made(name)
    path = _written(tmp_path, image)
    stubs = sum(row.stub is not None for row in image.rows) + len(image.selectors)
    assert main(["check", "--run", "--json", "--strict", str(path)]) == 0
    (told,) = json.loads(capfd.readouterr().out)["images"]
    assert (told["stubs_run"], told["stubs_not_run"], told["faults"]) == (stubs, [], [])
    assert main(["check", "--run", str(path)]) == 0
    assert capfd.readouterr().out.endswith(f", {stubs} stubs run: 0 faults, 0 remarks\n")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("classic-i386-jump-dylib", "the loader writes the code"),
        ("classic-ppc64-pic-dylib", "no emulator for ppc64"),
    ],
)
def test_stubs_that_nothing_can_run_are_counted(
    name: str, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    image = made(name)
    path = _written(tmp_path, image)
    stubs = sum(row.stub is not None for row in image.rows)
    assert main(["check", "--run", "--json", "--strict", str(path)]) == 0
    document = json.loads(capfd.readouterr().out)
    assert not wrong_members(document, _CHECK)
    (told,) = document["images"]
    assert (told["stubs_run"], told["stubs_not_run"]) == (0, [{"stubs": stubs, "reason": reason}])
    assert main(["check", "--run", str(path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == f"{path}: not run: {stubs} stubs: {reason}"
    assert lines[1].endswith(f", 0 stubs run, {stubs} not: 0 faults, 0 remarks")
    assert main(["check", str(path)]) == 0
    assert "run" not in capfd.readouterr().out


def test_files_of_all_kinds_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that nothing can run keeps nobody else from being run."""
    folder = tmp_path / "files"
    folder.mkdir()
    names = ("classic-ppc64-pic-dylib", "info-arm64-dylib", "info-i386-dylib")
    images = [made(name) for name in names]
    for image in images:
        _written(folder, image)
    parts = fat([(image.arch, image.data) for image in images])
    (folder / "fat").write_bytes(parts)
    built(folder, "program", _TEXT)
    assert main(["check", "--run", "--json", str(folder)]) == 0
    found = json.loads(capfd.readouterr().out)["images"]
    assert len(found) == 7
    for one in found:
        left = sum(row["stubs"] for row in one["stubs_not_run"])
        assert (one["stubs_run"] == 0, left > 0) == ((one["arch"] == "ppc64",) * 2)


@pytest.mark.parametrize("kind", ["elf", "mach-o"])
def test_without_unicorn_the_extra_is_named(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = built(tmp_path, "program", _TEXT)
    if kind == "mach-o":  # whatever the processor
        path = _written(tmp_path, made("classic-ppc64-pic-dylib"))
    monkeypatch.setitem(sys.modules, "unicorn", None)
    assert main(["check", "--run", str(path)]) == 1
    told = capfd.readouterr()
    assert told.out == ""
    assert "the emulator Unicorn is not installed" in told.err
    assert "pip install 'soscope[emulate]'" in told.err
    assert main(["check", str(path)]) == 0


def test_many_files_need_few_descriptors_and_little_memory(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for one in range(100):
        (tmp_path / f"program{one:03}").symlink_to(need("/bin/true"))
    paths = [str(tmp_path / f"program{one:03}") for one in range(100)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    gc.disable()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, limits[1]))
        assert main(["check", *paths]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        gc.enable()
    told = capfd.readouterr()
    assert told.out.splitlines()[-1].startswith("100 images, ")
    assert not told.err


def test_a_folder_without_images_has_a_document(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--json", str(tmp_path)]) == 1
    told = capfd.readouterr()
    assert json.loads(told.out) == {"schema": "soscope/check/1", "images": []}
    assert told.err == "soscope: no ELF or Mach-O file there\n"
    assert main(["check", str(tmp_path)]) == 1
    assert capfd.readouterr().out == ""
    (tmp_path / "text").write_text("nothing")
    assert main(["check", "--json", str(tmp_path / "text")]) == 1
    assert json.loads(capfd.readouterr().out)["images"] == []

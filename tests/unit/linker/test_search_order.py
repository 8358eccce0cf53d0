# SPDX-License-Identifier: Apache-2.0
"""Where libraries are looked for, and in which order: by chance, and by the loader's word."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
from pathlib import Path

import pytest

from soscope.linker import paths as tokens
from soscope.linker import system
from soscope.linker.library import open_image
from soscope.linker.search import closure
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.build import made_in
from tests.support.truth import loaderword

DT_RPATH, DT_RUNPATH, DT_NOTHING = 15, 29, 0x6FFFFF00
ROOM = 400  # bytes for the paths in each file
FOLDERS = ["d0", "d1", "d2", "d3", "d 4"]
BUILDS = [  # which a loader looks in without being told; the last ones before glibc 2.37
    "glibc-hwcaps/x86-64-v2",
    "d1/glibc-hwcaps/x86-64-v3",
    "d1/glibc-hwcaps/x86-64-v2",
    "x86_64",
    "d2/tls/x86_64",
    "d3/tls",
]


def link(target: Path, source: str, *words: str, compiler: str = "gcc") -> Path:
    kind = ["-shared", f"-Wl,-soname,{target.name}"] if target.suffix == ".so" else []
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-x", "c", "-", "-fPIC", "-Wl,--no-as-needed", *kind, "-o", target.name]
    command += ["-Wl,--allow-shlib-undefined", *words]
    made_in(target.parent, *command, text=source)
    return target


def patched(source: Path, target: Path, tag: int, paths: str) -> None:
    """Copy a file that has DT_RPATH; give it another tag, and other paths."""
    data = bytearray(source.read_bytes())
    room = b"X" * ROOM
    at = data.index(room)
    data[at : at + ROOM] = os.fsencode(paths).ljust(ROOM, b"\0")
    strings = open_image(str(source))
    offset = strings.dynamic.get(DT_RPATH)
    assert offset is not None
    entry = data.index(struct.pack("<qQ", DT_RPATH, offset))
    data[entry : entry + 8] = struct.pack("<q", tag)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(0o755)


def told(program: Path, env: dict[str, str]) -> dict[str, str]:
    """Ask the loader itself; its working directory is the program's."""
    done = run([str(program)], env=env | {"LD_TRACE_LOADED_OBJECTS": "1"}, cwd=program.parent)
    rows = re.findall(r"^\t(\S+)(?: => (.*?))?(?: \(0x.*\))?$", done.stdout, re.MULTILINE)
    own = ("ld-linux", "linux-vdso")
    names = {name: path or name for name, path in rows if not any(one in name for one in own)}
    return {
        name: "" if path == "not found" else os.path.realpath(program.parent / path)
        for name, path in names.items()
    }


def found(program: Path, library_path: str = "") -> dict[str, str]:
    here = os.getcwd()
    os.chdir(program.parent)
    try:
        listed = closure(open_image(str(program)), str(program), library_path)
        return {
            one.name: os.path.realpath(one.path) if one.library is not None else ""
            for one in listed[1:]
            if "ld-linux" not in one.name
        }
    finally:
        os.chdir(here)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that needs libmid, which needs libend; each has room for paths."""
    need("gcc")
    need("/usr/lib32/libc.so")
    folder = tmp_path_factory.mktemp("parts")
    room = f"-Wl,--disable-new-dtags,-rpath,{'X' * ROOM}"
    link(folder / "libend.so", "int end(void) { return 0; }")
    link(folder / "other" / "libend.so", "int end(void) { return 0; }", "-m32", "-nostdlib")
    source = "int end(void); int mid(void) { return end(); }"
    link(folder / "libmid.so", source, "-L.", "-lend", room)
    source = "int mid(void); int main(void) { return mid(); }"
    link(folder / "program", source, "-L.", "-lmid", room)
    return folder


def some_paths(chance: random.Random, root: Path) -> str:
    forms = [
        "$ORIGIN/{}",
        "${{ORIGIN}}/{}/",
        f"{root}/{{}}",
        f"{root}/$NOTHING/../{{}}",
        "$ORIGIN/../{}",
        "$ORIGINAL/{}",
        "{}",
        "./{}//",
        "$ORIGIN/$LIB/../../{}",
        "${{ORIGIN}}/../$PLATFORM/{}",
    ]
    parts = []
    for _ in range(chance.randrange(5)):
        part = chance.choice(forms).format(chance.choice(FOLDERS))
        parts.append("" if chance.random() < 0.1 else part)
    return ":".join(parts)


@pytest.mark.parametrize("seed", range(40))
def test_any_arrangement_is_searched_as_the_loader_does(
    seed: int, parts: Path, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    tags = [DT_RPATH, DT_RPATH, DT_RUNPATH, DT_NOTHING]
    program = tmp_path / "program"
    patched(parts / "program", program, chance.choice(tags), some_paths(chance, tmp_path))
    for folder in ["", "lib/x86_64-linux-gnu", *FOLDERS, "d0/d1", "d0/d2", *BUILDS]:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        if chance.random() < 0.8:
            tag = chance.choice(tags)
            patched(parts / "libmid.so", place / "libmid.so", tag, some_paths(chance, tmp_path))
        dice = chance.random()
        if dice < 0.45:
            shutil.copy(parts / "libend.so", place)
        elif dice < 0.6:
            shutil.copy(parts / "other" / "libend.so", place)  # for another class of machine
        elif dice < 0.7:
            (place / "libend.so").symlink_to(parts / "libend.so")
    for library_path in ("", some_paths(chance, tmp_path).replace(":", chance.choice(":;"))):
        env = {"LD_LIBRARY_PATH": library_path} if library_path else {}
        assert found(program, library_path) == told(program, env)


def test_a_linked_program_looks_where_it_really_lies(parts: Path, tmp_path: Path) -> None:
    """$ORIGIN of a program is by /proc/self/exe, that of a library by the name it was found by."""
    patched(parts / "program", tmp_path / "real" / "program", DT_RUNPATH, "$ORIGIN/lib")
    patched(parts / "libmid.so", tmp_path / "real" / "store" / "m", DT_RUNPATH, "$ORIGIN/sub")
    for folder in ("real/lib", "real/lib/sub", "real/store/sub"):
        (tmp_path / folder).mkdir(exist_ok=True, parents=True)
        shutil.copy(parts / "libend.so", tmp_path / folder)
    (tmp_path / "real/lib/libmid.so").symlink_to("../store/m")
    (tmp_path / "real/lib/libend.so").unlink()
    (tmp_path / "program").symlink_to("real/program")
    program = tmp_path / "program"
    assert found(program) == told(program, {})
    assert found(program)["libend.so"] == str(tmp_path / "real/lib/sub/libend.so")


def test_default_folders_can_be_refused(tmp_path: Path) -> None:
    need("gcc")
    program = link(tmp_path / "program", "int main(void) { return 0; }", "-Wl,-z,nodefaultlib")
    assert found(program) == told(program, {})
    assert found(program)["libc.so.6"] == ""


def test_one_file_under_two_names_is_one(parts: Path, tmp_path: Path) -> None:
    shutil.copy(parts / "libend.so", tmp_path)
    link(tmp_path / "liba.so", "int a(void) { return 0; }", f"-L{tmp_path}", "-lend")
    os.link(tmp_path / "libend.so", tmp_path / "libtwo.so")
    source = "int a(void); int main(void) { return a(); }"
    (tmp_path / "stub").mkdir()
    link(tmp_path / "stub/libtwo.so", "int two(void) { return 0; }")
    words = [f"-L{tmp_path}/stub", "-ltwo", f"-L{tmp_path}", "-la", "-Wl,-rpath,$ORIGIN"]
    program = link(tmp_path / "program", source, "-Wl,--disable-new-dtags", *words)
    listed = closure(open_image(str(program)), str(program))
    names = [one.name for one in listed]
    assert names[2:5] == ["libtwo.so", "liba.so", "libc.so.6"]
    assert "libend.so" not in names
    assert set(told(program, {})) == set(names[2:])


def test_what_is_no_library_ends_the_search(parts: Path, tmp_path: Path) -> None:
    """A loader goes on for another class; here it gives up, and so does the search."""
    patched(parts / "program", tmp_path / "program", DT_RPATH, "$ORIGIN/a:$ORIGIN/b")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/libmid.so").write_text("INPUT(libmid.a)")
    patched(parts / "libmid.so", tmp_path / "b/libmid.so", DT_RPATH, "$ORIGIN")
    program = tmp_path / "program"
    done = run([str(program)], env={"LD_TRACE_LOADED_OBJECTS": "1"})
    assert "a/libmid.so: " in done.stdout + done.stderr
    listed = {one.name: one for one in closure(open_image(str(program)), str(program))}
    assert listed["libmid.so"].library is None
    assert listed["libmid.so"].path == str(tmp_path / "a/libmid.so")


@pytest.mark.parametrize("words", [["-pie"], ["-no-pie"], ["-r", "-nostdlib"]], ids=lambda x: x[0])
def test_a_program_is_no_library(words: list[str], parts: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    patched(parts / "program", program, DT_RPATH, "$ORIGIN/a:$ORIGIN/b")
    link(tmp_path / "a/other", "int main(void) { return 0; }", *words).rename(
        tmp_path / "a/libmid.so"
    )
    patched(parts / "libmid.so", tmp_path / "b/libmid.so", DT_RPATH, "$ORIGIN")
    done = run([str(program)])
    assert "error while loading shared libraries: " in done.stderr
    assert done.returncode == 127
    listed = {one.name: one for one in closure(open_image(str(program)), str(program))}
    assert listed["libmid.so"].library is None
    assert "a/libmid.so" in listed["libmid.so"].path


@pytest.mark.parametrize("loader", ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux.so.2"])
def test_the_default_folders_are_those_that_the_loader_prints(loader: str) -> None:
    printed = run([need(loader), "--help"]).stdout
    rows = re.findall(r"^  (\S+) \(system search path\)", printed, re.MULTILINE)
    built = system.read(loader)
    assert built is not None
    assert built.folders == rows
    assert f" {built.version[0]}.{built.version[1]}." in run([loader, "--version"]).stdout
    assert system.read("/nosuch") is None
    assert system.parse(b"\0/lib") == ([], "", (2, 0))


def test_tokens_end_where_the_loader_ends_them() -> None:
    values = {"ORIGIN": "/o", "LIB": "lib64", "PLATFORM": ""}
    assert tokens.expand("$ORIGIN/$LIB", values) == "/o/lib64"
    assert tokens.expand("${ORIGIN}x/$LIBRARY/${LIB", values) == "/ox/$LIBRARY/${LIB"
    assert tokens.expand("a/$PLATFORM", values) is None
    assert tokens.expand("$", values) == "$"
    assert tokens.folders("/a/:/a:$PLATFORM/b::$ORIGIN", values) == [
        ("/a", False),
        (".", False),
        ("/o", True),
    ]


# ---- musl -------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", [DT_RPATH, DT_RUNPATH])
def test_musl_looks_in_its_own_order(tag: int, tmp_path: Path) -> None:
    """LD_LIBRARY_PATH first, then the paths of all who asked, DT_RUNPATH's as well."""
    loader = need("/lib/ld-musl-x86_64.so.1")
    need("musl-gcc")
    room = f"-Wl,--disable-new-dtags,-rpath,{'X' * ROOM}"
    folder = tmp_path / "parts"
    link(folder / "libend.so", "int end(void) { return 0; }", compiler="musl-gcc")
    source = "int end(void); int mid(void) { return end(); }"
    words = ["-L.", "-lend", "-lmid", room]
    link(folder / "libmid.so", source, *words[:2], room, compiler="musl-gcc")
    source = "int mid(void); int main(void) { return mid(); }"
    link(folder / "program", source, *words[:1], *words[2:], compiler="musl-gcc")
    program = tmp_path / "program"
    for paths in ("$ORIGIN/a:$ORIGIN/b", "${ORIGIN}/b", "$ORIGIN/a:$LIB/b", f"{tmp_path}/b"):
        patched(folder / "program", program, tag, paths)
        for place in "abc":
            patched(folder / "libmid.so", tmp_path / place / "libmid.so", tag, "$ORIGIN/d")
            shutil.rmtree(tmp_path / place / "d", ignore_errors=True)
        for place in ("b", "c/d"):
            (tmp_path / place).mkdir(exist_ok=True)
            shutil.copy(folder / "libend.so", tmp_path / place)
        for library_path in ("", f"{tmp_path}/c"):
            env = {"LD_LIBRARY_PATH": library_path}
            printed = run([loader, "--list", str(program)], env=env)
            rows = re.findall(r"^\t(\S+) => (\S+) \(0x", printed.stdout, re.MULTILINE)
            here = {name: path for name, path in found(program, library_path).items() if path}
            here.pop("/lib/ld-musl-x86_64.so.1", None)
            assert {name: os.path.realpath(path) for name, path in rows} == here, paths


def test_the_loader_is_asked_without_being_told() -> None:
    """The witness of these tests traces; it does not run what it looks at."""
    assert loaderword.ask("/bin/false").libraries["libc.so.6"]

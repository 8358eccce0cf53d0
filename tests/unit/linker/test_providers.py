# SPDX-License-Identifier: Apache-2.0
"""Providers of symbols: the loader itself is asked for the truth."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from soscope.linker import providers as part
from soscope.linker.library import open_image
from soscope.linker.providers import Provider, Providers
from tests.support.machines.tools import need
from tests.support.services import postgres
from tests.support.targets.build import made_in
from tests.support.time.patience import within_cpu
from tests.support.truth import loaderword

pytestmark = pytest.mark.slow

PROGRAMS = ["ls", "git", "perl", "ruby", "node", "sqlite3", "curl", "/usr/bin/python3", "gdb"]


@pytest.fixture
def built(tmp_path: Path) -> Path:
    need("gcc")
    return tmp_path


def link(folder: Path, name: str, source: str, *words: str, compiler: str = "gcc") -> Path:
    """Build a program, or a library if its name says so."""
    kind = ["-shared", f"-Wl,-soname,{os.path.basename(name)}"] if ".so" in name else []
    command = [compiler, "-x", "c", "-", "-fPIC", *kind, "-o", name, "-L.", *words]
    command.insert(1, "-Wl,--no-as-needed,--allow-shlib-undefined")
    made_in(folder, *command, text=source)
    return folder / name


def of(path: str | Path, library_path: str = "", sysroot: str = "") -> Providers:
    image = open_image(str(path))
    return Providers(image, str(path), library_path=library_path, sysroot=sysroot)


def compare(
    path: str | Path, env: dict[str, str] | None = None, *, by_itself: bool = False
) -> tuple[int, int]:
    """Compare all references of a file; return how many are bound, and how many are not."""
    loader = [loaderword.LOADER] if by_itself else []
    word = loaderword.ask(path, env, loader=loader)
    found = of(path, (env or {}).get("LD_LIBRARY_PATH", ""))
    itself = os.path.realpath(path)
    compared = 0
    for (name, version), where in word.bound.items():
        if itself in where:
            continue
        provider = found.find(name, version)
        assert provider.path is not None, (path, name, version, where, provider)
        assert os.path.realpath(provider.path) in where, (path, name, version, provider)
        assert provider.reason is None
        compared += 1
    for name, version in word.undefined:
        provider = found.find(name, version)
        assert provider[:2] == (None, None), (path, name, version, provider)
        assert provider.reason
    return compared, len(word.undefined)


# ---- what is on this system -------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_bound_as_their_loader_binds_them(name: str) -> None:
    bound, undefined = compare(os.path.realpath(need(name)))
    assert bound > 2
    assert undefined == 0


def test_a_program_of_postgresql_is_bound_as_its_loader_binds_it() -> None:
    """The one on PATH is a script that chooses among versions."""
    bound, undefined = compare(postgres.tool("psql"))
    assert bound > 2
    assert undefined == 0


def test_libraries_are_bound_as_their_loader_binds_them() -> None:
    """Sixty of this system, by themselves: all that a loader says of any symbol."""
    need(loaderword.LOADER)
    folder = Path("/usr/lib/x86_64-linux-gnu")
    listed = sorted(one for one in folder.glob("*.so.*") if not one.is_symlink())
    chosen = listed[:: max(1, len(listed) // 60)]
    total = [compare(path, by_itself=True) for path in chosen]
    assert sum(bound for bound, _ in total) > 1500


def test_extensions_of_python_are_bound_by_whoever_loads_them() -> None:
    need(loaderword.LOADER)
    folder = Path("/usr/lib/python3/dist-packages/numpy")
    need(str(folder))
    path = next(folder.rglob("_multiarray_umath*.so"))
    assert compare(path, by_itself=True)[1] > 50
    reason = of(path).find("PyErr_SetString").reason
    assert reason == "a Python extension: the program that loads it provides it"


# ---- order ------------------------------------------------------------------------------


def test_the_first_in_breadth_has_it(built: Path) -> None:
    link(built, "libdeep.so", "int f(void) { return 1; } int deep(void) { return 1; }")
    link(built, "liba.so", "int a(void) { return 0; }", "-ldeep", "-Wl,-rpath,$ORIGIN")
    link(built, "libb.so", "int f(void) { return 2; }")
    words = ["-la", "-lb", "-Wl,-rpath,$ORIGIN"]
    source = "int f(void); int deep(void); int main(void) { return f() + deep(); }"
    program = link(built, "program", source, *words, "-ldeep")
    assert compare(program)[0] >= 3
    assert of(program).find("f") == Provider("libb.so", str(built / "libb.so"), None)
    assert of(program).find("deep").name == "libdeep.so"


@pytest.mark.parametrize("option", ["-f", "-F"], ids=["auxiliary", "filter"])
@pytest.mark.parametrize("early", [False, True], ids=["after", "before"])
def test_a_filtee_comes_before_its_filter(option: str, early: bool, built: Path) -> None:
    link(built, "libimpl.so", "int f(void) { return 1; }")
    source = "int f(void) { return 2; } int g(void) { return 2; }"
    words = [f"-Wl,{option},libimpl.so", "-Wl,-rpath,$ORIGIN"]
    link(built, "libfront.so", source, *words)
    link(built, "libother.so", "int f(void) { return 3; } int h(void) { return 3; }")
    source = "int f(void), g(void), h(void); int main(void) { return f() + g() + h(); }"
    order = ["-limpl"] * early + ["-lother", "-lfront"] + ["-limpl"] * (not early)
    for number, words in enumerate((order, ["-lfront", "-lother"], ["-lother", "-lfront"])):
        program = link(built, f"program{number}", source, *words, "-Wl,-rpath,$ORIGIN")
        assert compare(program)[0] >= 3
    assert of(built / "program1").find("f").name == "libimpl.so"
    assert of(built / "program1").find("g").name == "libfront.so"


def test_an_auxiliary_that_is_missing_is_no_loss(built: Path) -> None:
    link(built, "libfront.so", "int f(void) { return 2; }", "-Wl,-f,libnone.so")
    words = ["-lfront", "-Wl,-rpath,$ORIGIN"]
    program = link(built, "program", "int f(void); int main(void) { return f(); }", *words)
    assert compare(program)[0] >= 2
    assert of(program).missing == ()


def test_libraries_that_need_each_other_are_each_the_first_of_their_own(built: Path) -> None:
    link(built, "libb.so", "int f(void) { return 0; }")
    words = ["-Wl,-rpath,$ORIGIN"]
    link(built, "liba.so", "int f(void); int a(void) { return f(); }", "-lb", *words)
    link(built, "libb.so", "int a(void); int f(void) { return a(); }", "-la", *words)
    link(built, "libc2.so", "int a(void); int c(void) { return a(); }", "-la", *words)
    for name in ("liba.so", "libb.so", "libc2.so"):
        assert compare(built / name, by_itself=True)[0] >= 1
    assert of(built / "libb.so").find("a").name == "liba.so"
    assert of(built / "libc2.so").find("f").name == "libb.so"


def test_every_name_leads_to_its_file(built: Path) -> None:
    """Two may lead to one, and the loader is found as any other."""
    need("/lib64/ld-linux-x86-64.so.2")
    link(built, "libone.so", "int f(void) { return 0; }")
    link(built, "libtwo.so", "int g(void) { return 0; }")
    source = "int f(void); int main(void) { return f(); }"
    program = link(built, "program", source, "-lone", "-ltwo", "-Wl,-rpath,$ORIGIN")
    (built / "libtwo.so").unlink()
    (built / "libtwo.so").symlink_to("libone.so")
    found = of(program)
    places = {name: found.where(name) for name in ("libone.so", "libtwo.so", "libc.so.6", "none")}
    for name, path in loaderword.ask(program).libraries.items():
        assert os.path.realpath(places[name] or "") == path
    assert os.path.realpath(places["libtwo.so"] or "") == str(built / "libone.so")
    assert places["none"] is None
    # libc.so.6 needs it, by a name that is none of a path
    assert found.where("ld-linux-x86-64.so.2") == "/lib64/ld-linux-x86-64.so.2"


# ---- versions ---------------------------------------------------------------------------

VERSIONS = """
__asm__(".symver f1, f@V1"); __asm__(".symver f2, f@@V2"); __asm__(".symver g1, g@V1");
__asm__(".symver h2, h@V2");
int f1(void) { return 1; } int f2(void) { return 2; } int g1(void) { return 1; }
int h2(void) { return 2; } int plain(void) { return 0; }
"""


def test_versions_are_matched_as_the_loader_matches_them(built: Path) -> None:
    """An old program is linked with a library without versions, a new one with this one."""
    (built / "map").write_text("V1 { f; g; }; V2 { h; } V1;")
    source = "int f(void) {return 0;} int g(void) {return 0;} int h(void) {return 0;}"
    link(built, "libv.so", source + "int plain(void) {return 0;}")
    link(built, "libw.so", "int h(void) { return 3; }")
    source = "int f(void), g(void), h(void), plain(void);"
    source += "int main(void) { return f() + g() + h() + plain(); }"
    old = link(built, "old", source, "-lv", "-lw", "-Wl,-rpath,$ORIGIN")
    link(built, "libv.so", VERSIONS, "-Wl,--version-script,map")
    source = "int f(void), plain(void); int main(void) { return f() + plain(); }"
    new = link(built, "new", source, "-lv", "-lw", "-Wl,-rpath,$ORIGIN")
    assert compare(old)[0] >= 5
    assert compare(new)[0] >= 3
    found = of(old)
    names = [found.find(*one).name for one in (("f", None), ("g", None), ("h", None))]
    assert names == ["libv.so", "libv.so", "libw.so"]
    assert found.find("f", "V1").name == found.find("f", "V2").name == "libv.so"
    assert found.find("f", "V3").name is None
    assert found.find("h", "V2").name == "libv.so"
    assert found.find("h", "V1").name == "libw.so"  # which has no versions: any will do


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_either_hash_table_is_enough(style: str, built: Path) -> None:
    words = [f"-Wl,--hash-style={style}"]
    source = "".join(f"int f{one}(void) {{ return 0; }}" for one in range(50))
    hidden = '__attribute__((visibility("protected"))) int p(void) { return 0; }'
    link(built, "liba.so", source + hidden, *words)
    names = [f"f{one}" for one in range(50)]
    source = f"int {'(void), '.join(names)}(void), p(void), q(void) __attribute__((weak));"
    source += f"int main(void) {{ return {'() + '.join(names)}() + p() + (q ? q() : 0); }}"
    program = link(built, "program", source, "-la", "-Wl,-rpath,$ORIGIN", *words)
    assert compare(program)[0] >= 51
    assert of(program).find("q") == Provider(None, None, part.WEAK)


# ---- reasons ----------------------------------------------------------------------------


def test_a_library_without_needs_is_served_by_who_loads_it(built: Path) -> None:
    path = link(built, "liba.so", "int f(void); int a(void) { return f(); }", "-nostdlib")
    assert of(path).find("f") == Provider(None, None, part.ALONE)


def test_a_missing_library_may_have_it(built: Path) -> None:
    link(built, "libgone.so", "int f(void) { return 0; }")
    source = "int f(void); int main(void) { return f(); }"
    program = link(built, "program", source, "-lgone", "-Wl,-rpath,$ORIGIN")
    (built / "libgone.so").unlink()
    found = of(program)
    assert found.missing == ("libgone.so",)
    assert found.find("f").reason == "libgone.so not found, and perhaps there"
    assert found.find("__libc_start_main", "GLIBC_2.34").name == "libc.so.6"
    link(built, "libgone.so", "int f(void) { return 0; }")
    assert of(program).find("f").name == "libgone.so"  # nothing is remembered that changes


def test_what_nobody_has_is_said(built: Path) -> None:
    source = "int f(void); int main(void) { return f(); }"
    link(built, "libempty.so", "int f(void) { return 0; }")
    program = link(built, "program", source, "-lempty", "-Wl,-rpath,$ORIGIN")
    link(built, "libempty.so", "")
    assert compare(program)[1] == 1
    assert of(program).find("f").reason == part.NOWHERE
    library = link(built, "liba.so", "int f(void); int a(void) { return f(); }")
    reason = of(library).find("f").reason
    assert reason is not None
    assert reason.startswith(part.NOWHERE)
    assert "a program that loads" in reason


def test_a_file_that_changes_is_read_again(built: Path) -> None:
    source = "int f(void); int g(void); int main(void) { return f() + g(); }"
    link(built, "liba.so", "int f(void) { return 0; }")
    link(built, "libb.so", "int g(void) { return 0; }")
    words = ["-la", "-lb", "-Wl,-rpath,$ORIGIN"]
    program = link(built, "program", source, *words)
    assert of(program, str(built)).find("g").name == "libb.so"
    link(built, "liba.so", "int f(void) { return 0; } int g(void) { return 0; }")
    assert of(program, str(built)).find("g").name == "liba.so"


def test_damage_in_a_library_is_not_an_error(built: Path) -> None:
    path = link(built, "liba.so", "int f(void) { return 0; }")
    source = "int f(void); int main(void) { return f(); }"
    program = link(built, "program", source, "-la", "-Wl,-rpath,$ORIGIN")
    good = path.read_bytes()
    for at in range(0, min(len(good), 4096), 8):
        path.write_bytes(good[:at] + b"\xff" * 8 + good[at + 8 :])
        os.utime(path, ns=(at, at))
        provider = of(program).find("f")
        assert provider.name in ("liba.so", None)
        assert (provider.reason is None) == (provider.name is not None)
    for size in range(0, len(good), 257):
        path.write_bytes(good[:size])
        assert of(program).find("f").name in ("liba.so", None)


@settings(max_examples=150)
@given(st.integers(0, 0x1800), st.binary(min_size=1, max_size=8), st.integers(0, 400))
def test_damage_in_the_file_itself_is_less_and_no_error(at: int, what: bytes, cut: int) -> None:
    good = Path(need("/bin/true")).read_bytes()
    data = good[:at] + what + good[at + len(what) : len(good) - cut * 64]
    with contextlib.suppress(FormatError):  # the file is refused
        image = ElfImage.from_source(BufferSource(data))
        found = Providers(image, "/bin/true")
        for name, version in (("puts", None), ("malloc", "GLIBC_2.2.5"), ("nobody", None)):
            provider = found.find(name, version)
            assert (provider.reason is None) == (provider.path is not None)


def test_a_file_that_wants_too_much_is_answered_soon(built: Path) -> None:
    folders = ":".join(f"/nosuch/{one}" for one in range(5000))
    names = [f"-l:lib{one}.so" for one in range(300)]
    for one in range(300):
        (built / f"lib{one}.so").symlink_to("one")
    link(built, "one", "", "-shared", "-nostdlib")
    source = "int f(void) __attribute__((weak)); int main(void) { return f ? f() : 0; }"
    program = link(built, "program", source, *names, f"-Wl,-rpath,{folders}")
    with within_cpu(5):
        found = of(program)
        assert len(found.missing) == 300
        assert found.find("f").reason == part.WEAK


# ---- musl -------------------------------------------------------------------------------


def test_musl_takes_the_default_version_of_the_first(built: Path) -> None:
    need("musl-gcc")
    source = "int main(void); int puts(const char *); int main(void) { return puts(0); }"
    program = link(built, "program", source, compiler="musl-gcc")
    found = of(program).find("puts")
    assert found.name == "libc.so"
    assert found.path == "/lib/ld-musl-x86_64.so.1"
    assert of(program).find("nobody").reason == part.NOWHERE
    library = link(
        built, "liba.so", "int puts(char *); int f(void) { return puts(0); }", compiler="musl-gcc"
    )
    assert of(library).find("puts").path == "/lib/ld-musl-x86_64.so.1"


def test_a_program_of_other_bits_has_a_loader_of_its_own(built: Path) -> None:
    need("/usr/lib32/libc.so")
    program = link(built, "program", "int puts(char *); int main(void) { return puts(0); }", "-m32")
    assert compare(program)[0] >= 2
    assert of(program).find("puts", "GLIBC_2.0").path == "/lib32/libc.so.6"
    shutil.copy(program, built / "copy")
    assert of(built / "copy").find("puts").name == "libc.so.6"


# ---- what nobody has, of all files of a program ------------------------------------------


def test_a_library_that_cannot_be_read_may_have_what_others_lack(built: Path) -> None:
    """The program itself asks for nothing: only its libraries do."""
    closed = link(built, "libclosed.so", "int f(void) { return 0; }")
    link(built, "liba.so", "int f(void); int a(void) { return f(); }", "-nostdlib")
    words = ["-la", "-lclosed", "-nostdlib", "-Wl,-rpath,$ORIGIN"]
    program = link(built, "program", "int _start(void) { return 0; }", *words)
    assert of(program).lacks() == []
    closed.write_bytes(unreadable(closed.read_bytes()))
    assert of(program).find("f").reason == "libclosed.so cannot be read, and perhaps there"
    part._scopes.clear()  # nobody has asked for anything
    assert of(program).lacks() == []
    link(built, "libclosed.so", "")
    (lack,) = of(program).lacks()
    assert (lack.path, lack.symbol) == (str(built / "liba.so"), "f")


def test_a_library_that_is_replaced_meanwhile_lacks_nothing(built: Path) -> None:
    link(built, "libempty.so", "int f(void) { return 0; }")
    path = link(built, "liba.so", "int f(void); int a(void) { return f(); }", "-lempty")
    words = ["-la", "-lempty", "-Wl,-rpath,$ORIGIN"]
    program = link(built, "program", "int a(void); int main(void) { return a(); }", *words)
    link(built, "libempty.so", "")
    asked = of(program)
    assert [lack.path for lack in asked.lacks()] == [str(path)]
    path.unlink()
    assert asked.lacks() == []


def unreadable(data: bytes) -> bytes:
    """Have the table of symbols of a file of 64 bits lie where it has nothing."""
    image = ElfImage.from_source(BufferSource(data))
    (at, size) = next(
        (each.offset, each.filesz) for each in image.segments if each.type == c.PT_DYNAMIC
    )
    entries = [struct.unpack_from("<qQ", data, at + step) for step in range(0, size, 16)]
    words = [(tag, 1 << 40 if tag == c.DT_SYMTAB else value) for tag, value in entries]
    made = b"".join(struct.pack("<qQ", *entry) for entry in words)
    return data[:at] + made + data[at + size :]

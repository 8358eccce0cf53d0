# SPDX-License-Identifier: Apache-2.0
"""Loading: the compiled file, the declarations of a checkout, and what is neither."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import sys
from pathlib import Path
from resource import RLIMIT_CORE

import pytest

from soscope.errors import FormatError
from soscope.model.call import DATA_BYTES
from soscope.prototypes import build, catalog, load
from soscope.prototypes.failures import ERRNOS
from soscope.prototypes.show import ConstantSets, flag_text, number_of
from soscope.prototypes.table import Special
from soscope.wire import layout
from tests.support.processes.run import imported
from tests.unit.prototypes.calls import DIRECTORY, at_entry, at_exit, slot

PACKAGE = Path(catalog.__file__).parents[1]


@pytest.fixture(scope="module")
def content() -> bytes:
    return build.compile_directory(str(DIRECTORY))


def texts(found: catalog.Prototypes) -> list[str]:
    captured = at_entry(1, 0, strings={0: b"/etc/hostname"})
    return [one.shown for one in found.format_call(slot("open"), captured, 32)]


WANTED = ['"/etc/hostname"', "O_RDONLY"]


def test_a_compiled_file_is_all_that_is_needed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "prototypes.bin"
    path.write_bytes(content)
    found = load(str(path))
    assert texts(found) == WANTED
    section = found.function_table([], entry_only=False, want_arguments=True)
    assert section == load().function_table([], entry_only=False, want_arguments=True)


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "other"])
def test_a_file_that_is_none_is_refused(content: bytes, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "prototypes.bin"
    damaged = {"empty": b"", "cut": content[:-1], "other": b"x" + content[1:]}
    if damage != "missing":
        path.write_bytes(damaged[damage])
    assert catalog.opened(str(path)) is None
    with pytest.raises(FormatError, match=r"prototypes\.bin: no compiled prototypes"):
        load(str(path))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a checkout with a package of its own; return its root."""
    package = tmp_path / "src" / "soscope" / "prototypes"
    package.mkdir(parents=True)
    (package / "__pycache__").mkdir()
    (package / "catalog.py").touch()
    shutil.copytree(DIRECTORY, tmp_path / "prototypes")
    monkeypatch.setattr(catalog, "__file__", str(package / "catalog.py"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


def cache_of(root: Path) -> Path:
    return root / "src" / "soscope" / "prototypes" / "__pycache__" / "prototypes.bin"


def test_a_checkout_compiles_once(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert texts(load()) == WANTED
    assert cache_of(checkout).exists()
    monkeypatch.setattr(build, "compile_directory", None)
    assert texts(load()) == WANTED


@pytest.mark.slow
def test_a_changed_declaration_is_compiled_again(checkout: Path, content: bytes) -> None:
    cache_of(checkout).write_bytes(content)
    declarations = checkout / "prototypes" / "dl.h"
    declarations.write_text(declarations.read_text() + "\nint frobnicate(int a BOOL);\n")
    later = cache_of(checkout).stat().st_mtime_ns + 1_000_000_000
    os.utime(declarations, ns=(later, later))
    (shown,) = load().format_call(slot("frobnicate"), at_entry(1), 32)
    assert shown.text == "true"


@pytest.mark.slow
def test_a_checkout_that_cannot_be_written_still_works(checkout: Path) -> None:
    shutil.rmtree(cache_of(checkout).parent)
    assert texts(load()) == WANTED
    assert not cache_of(checkout).exists()


@pytest.mark.slow
def test_a_faulty_declaration_is_an_error_and_not_a_stale_file(
    checkout: Path, content: bytes
) -> None:
    cache_of(checkout).write_bytes(content)
    assert texts(load()) == WANTED
    declarations = checkout / "prototypes" / "dl.h"
    declarations.write_text(declarations.read_text() + "\nint frobnicate(unknown_t a);\n")
    later = cache_of(checkout).stat().st_mtime_ns + 1_000_000_000
    os.utime(declarations, ns=(later, later))
    with pytest.raises(FormatError, match=r"dl\.h:\d+: type 'unknown_t'"):
        load()


def test_an_installed_package_uses_its_file(checkout: Path, content: bytes) -> None:
    shutil.rmtree(checkout / "prototypes")
    with pytest.raises(FormatError, match="the compiled prototypes are missing"):
        load()
    agent = checkout / "src" / "soscope" / "_agent"
    agent.mkdir()
    (agent / "prototypes.bin").write_bytes(content)
    assert texts(load()) == WANTED


def test_names_of_errors() -> None:
    found = load()
    assert found.errno_name(2) == "ENOENT"
    assert found.errno_text(2) == "No such file or directory"
    assert found.errno_name(4095) == "errno 4095"
    assert found.errno_text(4095) == "Unknown error 4095"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of Linux")
def test_the_table_of_errors_is_that_of_the_system() -> None:
    for number, (name, _) in ERRNOS.items():
        assert getattr(errno, name, number) == number  # it lacks EHWPOISON
    assert {number for number in errno.errorcode if number < 134} | {133} == set(ERRNOS)


@pytest.mark.parametrize(
    ("command", "number", "text"),
    [
        (33, 0x110, "SSL_MODE_RELEASE_BUFFERS|SSL_MODE_ASYNC"),
        (44, 0x81, "SSL_SESS_CACHE_CLIENT|SSL_SESS_CACHE_NO_AUTO_CLEAR"),
        (124, 0x304, "TLS1_3_VERSION"),
        (42, 77, "77"),
    ],
)
def test_what_a_number_for_openssl_means(command: int, number: int, text: str) -> None:
    captured = at_entry(1, command, number, 0)
    shown = load().format_call(slot("SSL_CTX_ctrl"), captured, 32)
    assert set(shown[2].text.split("|")) == set(text.split("|"))


def test_calls_are_found_by_name_whatever_the_number_was() -> None:
    found = load()
    captured = at_entry(1, 0, strings={0: b"x"})
    (path, flags) = found.format_call(slot("open", prototype=7), captured, 32)
    assert (path.text, flags.text) == ('"x"', "O_RDONLY")
    result = found.format_result(slot("frobnicate"), at_exit(5), None)
    assert result is not None
    assert (result.type, result.text) == ("?", "5 ?")
    assert found.failure_errno(slot("frobnicate"), at_exit(-1, errno=2)) is None
    assert found.known_at_entry(slot("frobnicate")) is None
    assert found.known_at_entry(slot("read")) == 1
    assert found.known_at_entry(slot("open")) is None


def test_a_declaration_can_be_asked_for() -> None:
    found = load()
    assert found.declaration("close") == "int close(int fd) FAILS(< 0) ALSO(__close)"
    assert found.declaration("__close") == found.declaration("close")
    assert found.declaration("frobnicate") is None


def test_loading_imports_nothing_that_is_slow(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "prototypes.bin"
    path.write_bytes(content)
    loaded = imported(
        "import soscope.prototypes as p;"
        f"p.load({str(path)!r}).function_table([], entry_only=False, want_arguments=True)"
    )
    slow = {"typing", "re", "json", "dataclasses", "collections", "pathlib", "inspect", "enum"}
    assert not loaded & slow
    assert "soscope.prototypes.parser" not in loaded
    assert "soscope.prototypes.printer" not in loaded


@pytest.mark.slow
def test_the_command_writes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "prototypes.bin"
    assert build.main([str(DIRECTORY), str(out)]) == 0
    assert texts(load(str(out))) == WANTED
    assert build.main([]) == 2
    assert build.main([str(tmp_path), str(out)]) == 1
    assert "soscope: error: " in capsys.readouterr().err


def test_a_name_is_declared_once(tmp_path: Path) -> None:
    directory = tmp_path / "prototypes"
    shutil.copytree(DIRECTORY, directory)
    (directory / "twice.h").write_text("int g(int a) ALSO(close);\n")
    with pytest.raises(FormatError, match="'close' is declared twice"):
        build.compile_directory(str(directory))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("A=1", "is not NAME=VALUE in a set"),
        ("enum a\n A", "sets:2: 'A' is not NAME=VALUE"),
        ("enum a\nenum a", "is defined twice"),
        ("enum a\n A=1\nenum b\n A=2", "'A' has two values"),
        ("enum a\n A=x", "'x' is not a number"),
    ],
)
def test_faulty_constants(text: str, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        ConstantSets().read(text, "sets")


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("-1", -1), ("017", 15), ("0x1F", 31), ("10", 10)]
)
def test_numbers_are_read_as_c_reads_them(text: str, number: int) -> None:
    assert number_of(text) == number


def test_a_field_is_shown_once() -> None:
    names = [(3, 0, "NONE"), (3, 3, "BOTH"), (4, 4, "FOUR")]
    assert flag_text(0, names) == "NONE"
    assert flag_text(7, names) == "BOTH|FOUR"
    assert flag_text(1, names) == "0x1"
    assert flag_text(0, [(1, 1, "ONE")]) == "0"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("perhaps f", "'perhaps' is no treatment"),
        ("never f\ntwice f", "special:2: 'f' is defined twice"),
        ("twice f*", "a function that returns twice needs a name, not a pattern"),
        ("brief f*", "a brief function needs a name, not a pattern"),
    ],
)
def test_faulty_treatments(text: str, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        Special().read(text, "special")


def test_treatments_go_on_over_lines() -> None:
    found = Special()
    found.read("entry-only a b* # why\n    c\nnever d\n", "special")
    assert found.names == {
        "a": layout.FN_ENTRY_ONLY,
        "c": layout.FN_ENTRY_ONLY,
        "d": layout.FN_NEVER,
    }
    assert found.globs == {layout.FN_ENTRY_ONLY: ["b*"]}


@pytest.mark.parametrize(
    ("symbol", "words", "result", "arguments", "text"),
    [
        ("isatty", [1], 0, ["1"], "0"),
        ("isatty", [1], 1, ["1"], "1"),
        ("isalpha", [ord("a")], 1024, ["'a'"], "1024"),
        ("ferror", [0x5000], 0, ["0x5000"], "0"),
        ("sem_init", [0x5000, 0, 1], 0, ["0x5000", "0", "1"], "0"),
        ("__memcpy_chk", [1, 2, 3, -1 & (1 << 64) - 1], 1, ["0x1", "0x2", "3", "-1"], "0x1"),
    ],
)
def test_numbers_are_shown_as_c_has_them(
    symbol: str, words: list[int], result: int, arguments: list[str], text: str
) -> None:
    found, called = load(), slot(symbol)
    after = at_exit(result)
    shown = found.format_call(called, at_entry(*words), 32, after)
    assert [one.shown for one in shown] == arguments
    value = found.format_result(called, after, None, 32)
    assert value is not None
    assert (value.text, value.type == "bool") == (text, False)


def test_every_declared_argument_has_a_name() -> None:
    known = load()
    for function in known.names():
        of = known.row(function)
        assert of is not None
        fixed, tails = catalog.argument_names(of)
        assert all((*fixed, *(name for tail in tails for name in tail))), of[-2]


@pytest.mark.parametrize("name", ["setrlimit", "setrlimit64", "prlimit", "prlimit64"])
def test_no_limit_is_named(name: str) -> None:
    limit = 2 if name.startswith("prlimit") else 1
    words = (0, RLIMIT_CORE, 0x7000) if limit == 2 else (RLIMIT_CORE, 0x7000)
    data = {limit: (DATA_BYTES, 0, struct.pack("<qq", 4711, -1))}
    shown = load().format_call(slot(name), at_entry(*words, data=data), 32)
    assert [one.shown for one in shown][limit - 1 : limit + 1] == [
        "RLIMIT_CORE",
        "{rlim_cur=4711, rlim_max=RLIM_INFINITY}",
    ]

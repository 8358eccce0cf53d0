# SPDX-License-Identifier: Apache-2.0
"""Modules from one file are those that their sources say, whatever has become of the file."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from pathlib import Path
from types import ModuleType

import pytest

from soscope.verbs.onefile import OneFile

SOURCES = {
    "__init__.py": "",
    "one.py": "def value():\n    return 1\n",
    "sub/__init__.py": "NAME = __name__\n",
    "sub/two.py": "VALUE = 2\n",
}
NAMES = ["soscope.one", "soscope.sub", "soscope.sub.two"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose modules are compiled, one of which was imported in the usual way."""
    root = tmp_path / "soscope"
    for name, text in SOURCES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        py_compile.compile(str(path))
    module = ModuleType("soscope.one")
    cached = importlib.util.cache_from_source(str(root / "one.py"))
    monkeypatch.setattr(module, "__cached__", cached, raising=False)
    monkeypatch.setitem(sys.modules, "soscope.one", module)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return root


def kept(root: Path) -> Path:
    finder = OneFile(str(root))
    assert finder.find_spec("soscope.one") is None
    finder.keep()
    (path,) = (root / "__pycache__").glob("*.pycs")
    return path


def load(finder: OneFile, name: str) -> ModuleType:
    spec = finder.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_modules_are_those_of_the_sources(root: Path) -> None:
    kept(root)
    finder = OneFile(str(root))
    one = load(finder, "soscope.one")
    assert one.value() == 1
    assert one.__file__ == str(root / "one.py")
    package = load(finder, "soscope.sub")
    assert package.NAME == "soscope.sub"
    assert list(package.__path__) == [str(root / "sub")]
    assert load(finder, "soscope.sub.two").VALUE == 2
    assert finder.find_spec("soscope.three") is None
    assert finder.find_spec("json") is None


def test_a_source_that_has_changed(root: Path) -> None:
    kept(root)
    finder = OneFile(str(root))
    (root / "one.py").write_text("def value():\n    return 11\n")
    assert finder.find_spec("soscope.one") is None
    assert load(finder, "soscope.sub.two").VALUE == 2
    py_compile.compile(str(root / "one.py"))
    finder.keep()
    assert load(OneFile(str(root)), "soscope.one").value() == 11


def test_bytecode_that_is_older_than_its_source_is_left_out(root: Path) -> None:
    (root / "sub" / "two.py").write_text("VALUE = 22\n")
    kept(root)
    assert OneFile(str(root)).find_spec("soscope.sub.two") is None


@pytest.mark.parametrize("size", [0, 4, 40, 600, -1, -10])
def test_a_file_that_is_cut_off(root: Path, size: int) -> None:
    path = kept(root)
    data = path.read_bytes()
    path.write_bytes(data[:size])
    finder = OneFile(str(root))
    told = {"soscope.one": "value", "soscope.sub": "NAME", "soscope.sub.two": "VALUE"}
    for name in NAMES:
        if finder.find_spec(name) is not None:  # else Python looks itself
            assert hasattr(load(finder, name), told[name])


def test_a_file_of_zeros(root: Path) -> None:
    path = kept(root)
    data = path.read_bytes()
    head = 8 + int.from_bytes(data[:8], "little")
    path.write_bytes(data[:head] + bytes(len(data) - head))
    assert load(OneFile(str(root)), "soscope.one").value() == 1
    path.write_bytes(bytes(len(data)))
    assert OneFile(str(root)).find_spec("soscope.one") is None


def test_nothing_is_written_where_python_writes_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    finder = OneFile(str(root))
    finder.find_spec("soscope.one")
    finder.keep()
    assert not [*root.rglob("*.pycs")]


def test_nothing_is_written_where_all_was_there(root: Path) -> None:
    path = kept(root)
    before = os.stat(path).st_ino
    finder = OneFile(str(root))
    for name in NAMES:
        load(finder, name)
    finder.find_spec("soscope.three")
    finder.keep()
    assert os.stat(path).st_ino == before
    assert os.listdir(path.parent) == os.listdir(root / "__pycache__")


def test_nobody_else_can_write_the_file(root: Path) -> None:
    before = os.umask(0)
    try:
        path = kept(root)
    finally:
        os.umask(before)
    assert not path.stat().st_mode & 0o022


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_not_read(mode: int, root: Path) -> None:
    path = kept(root)
    assert OneFile(str(root)).find_spec("soscope.one") is not None
    path.chmod(mode)
    assert OneFile(str(root)).find_spec("soscope.one") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read(root: Path) -> None:
    os.chown(kept(root), 4242, 4242)
    assert OneFile(str(root)).find_spec("soscope.one") is None


def test_a_link_is_not_written_through(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("as it was")
    aside = Path(importlib.util.cache_from_source(str(root / "modules.py")) + f"s.{os.getpid()}")
    aside.symlink_to(elsewhere)
    finder = OneFile(str(root))
    assert finder.find_spec("soscope.one") is None
    finder.keep()
    assert elsewhere.read_text() == "as it was"

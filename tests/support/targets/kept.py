# SPDX-License-Identifier: Apache-2.0
"""Folders that are filled once, for all tests, all workers and all later runs.

    folder = kept("shop", TEXT, make=lambda folder: (folder / "list").write_text(TEXT))

What fills a folder says in `parts` all that it depends on; a folder is looked for by their hash.
A test that changes a file takes a copy of it. `make clean` removes the folders.

Each attempt has a folder of its own, whose path may be written into its files. When it is
complete, a link with the name that is looked for is put beside it. So a run that is killed leaves
nothing that another could take for complete, even if its compilers live on for a while.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.targets.locked import alone
from tests.support.targets.matrix import FOLDER, REPOSITORY

Part = str | bytes | Path
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_INCLUDED = {".h", ".hh", ".hpp", ".inc", ".c", ".cc", ".S", ".s"}
_PLACE = re.compile(r"/[^\s:,;=\"'<>]+")  # a path within a word, as of -I/place or -Wl,-T,/place


def kept(name: str, *parts: Part, make: Callable[[Path], object]) -> Path:
    """Return the folder that `make` has filled; it is called if there is none for these parts.

    `name` says what it is, to people who look below build/. A path among the parts stands for what
    the file has in it, and what that includes.
    """
    link = FOLDER / f"{name}-{_digest(parts)}"
    if not link.exists():
        with alone(link):
            if not link.exists():
                _make(link, make)
    return link.parent / os.readlink(link)


def _make(link: Path, make: Callable[[Path], object]) -> None:
    for left in link.parent.glob(f"{link.name}.*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=link.parent, prefix=f"{link.name}."))
    folder.chmod(0o755)  # tests run programs as other users, too
    try:
        make(folder)
        os.symlink(folder.name, folder / ".link")
        os.rename(folder / ".link", link)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _digest(parts: Iterable[Part]) -> str:
    said = hashlib.sha256(os.fsencode(FOLDER))  # a checkout that was moved begins anew
    for part in parts:
        data = content(part) if isinstance(part, Path) else part
        data = data.encode(errors="surrogateescape") if isinstance(data, str) else data
        said.update(b"%d\0" % len(data))
        said.update(data)
    return said.hexdigest()[:16]


def content(path: Path) -> bytes:
    """Return what is in a file, and in all that it includes from its own folder."""
    seen: dict[Path, bytes] = {}
    todo = [path]
    while todo:
        one = todo.pop()
        if one in seen or not one.is_file():
            continue
        seen[one] = one.read_bytes()
        if one.suffix in _INCLUDED:
            found = _INCLUDE.findall(seen[one].decode(errors="replace"))
            todo += [one.parent / name for name in found]
    return b"\0".join(one.name.encode() + b"\0" + seen[one] for one in sorted(seen))


# ---- what the words of a command stand for ----


def behind(word: str) -> str:
    """Return a text that changes with the files that a word of a command names."""
    return "\0".join(_state(place) for place in _PLACE.findall(word))


@functools.cache
def _state(place: str) -> str:
    path = Path(os.path.normpath(place))
    if not os.path.exists(path) or path.is_relative_to(FOLDER):
        return ""  # a name of this module's has a digest in it
    if path.is_relative_to(REPOSITORY):
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        texts = [content(one) for one in files if one.suffix in _INCLUDED or one == path]
        return hashlib.sha256(b"\0".join(texts)).hexdigest()
    assert not path.is_relative_to(tempfile.gettempdir()), f"another run has no {path}"
    return f"{path.resolve()} {path.stat().st_mtime_ns}"

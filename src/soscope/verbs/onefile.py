# SPDX-License-Identifier: Apache-2.0
"""The bytecode of soscope's modules in one file, as a verb imports two hundred of them.

For each import Python searches six files and folders, which takes as long as all that the modules
do. The file is in the package's `__pycache__`, beside the bytecode that it was made from, and is
trusted in the same way: a module is used if its source still has the recorded time and size. The
file must belong to the owner of the sources, to root or to the user of soscope, and no other user
may be able to write to it, whatever the umask was. It is written at the end of a run in which a
module was not found in it, if Python may write bytecode at all (see `guard`). Without it
everything is the same, only slower.

    8 bytes       length of the index
    index         marshal: magic number, {module: (is a package, mtime in ns, size, offset, length)}
    bytecode      marshal: one code object for each module
"""

from __future__ import annotations

import marshal
import mmap
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader, cache_from_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, ModuleType

    Row = tuple[bool, int, int, int, int]


_PACKAGE = "soscope"
_PYC_HEAD = 16  # bytes of magic number, flags, time and size of the source
_OTHERS_WRITE = 0o022
_ALL_WRITE = 0o002
_DAMAGED = (EOFError, ValueError, TypeError)


def guard() -> None:
    """Keep other users from replacing the package's bytecode, if the umask would let them.

    Python makes its cache folders with the mode that the umask leaves. If all users may write to
    them, another user may put code there which the next run executes. So Python writes no
    bytecode then. The folders of the modules that were imported before are taken from the others.
    """
    mask = os.umask(_OTHERS_WRITE)
    os.umask(mask)
    if mask & _ALL_WRITE or sys.dont_write_bytecode:
        return
    sys.dont_write_bytecode = True
    modules = [sys.modules[name] for name in sys.modules if name.partition(".")[0] == _PACKAGE]
    for folder in {os.path.dirname(module.__cached__) for module in modules if module.__cached__}:
        try:
            mode = os.lstat(folder).st_mode
            if mode & _ALL_WRITE:
                os.chmod(folder, mode & 0o777 & ~_OTHERS_WRITE)
                _remove_foreign(folder)
        except OSError:
            continue  # there is none, or it is another user's


def _remove_foreign(folder: str) -> None:
    """Remove the files that another user has put into a folder. Raises OSError."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.lstat(path).st_uid not in (0, os.geteuid()):
            try:
                os.unlink(path)
            except IsADirectoryError:
                continue  # Python reads no bytecode from it


class OneFile:
    """A finder of modules, for `sys.meta_path`. `root` is the package's folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._path = cache_from_source(os.path.join(root, "modules.py")) + "s"
        self._missed: list[str] = []
        self._bytes, self._index = _read(self._path, root)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, None if the file does not have it."""
        del path, target
        if not name.startswith(f"{_PACKAGE}."):
            return None
        row = self._index.get(name)
        if row is not None:
            tail = "/__init__.py" if row[0] else ".py"
            origin = self._root + name[len(_PACKAGE) :].replace(".", "/") + tail
            if _stamp(origin) == row[1:3]:
                spec = ModuleSpec(name, _Loader(name, origin, self), origin=origin)
                spec.has_location = True
                if row[0]:
                    spec.submodule_search_locations = [os.path.dirname(origin)]
                return spec
        self._missed.append(name)
        return None

    def code(self, name: str) -> CodeType | None:
        """Return the code of a module, None if it is damaged."""
        _, _, _, offset, length = self._index[name]
        try:
            code: CodeType = marshal.loads(self._bytes[offset : offset + length])  # noqa: S302  as above
        except _DAMAGED:
            return None  # Python then reads the module's own file
        return code

    def keep(self) -> None:
        """Write the file again if that would help the next run, and is allowed."""
        if sys.dont_write_bytecode or not any(map(_is_compiled, self._missed)):
            return
        folder = os.path.dirname(self._path)
        aside = f"{self._path}.{os.getpid()}"
        try:
            if os.access(folder, os.W_OK):
                _write(self._root, aside)
                os.replace(aside, self._path)
        except OSError:
            try:
                os.unlink(aside)
            except OSError:
                pass  # the file does not exist


class _Loader(SourceFileLoader):
    """Loads a module whose bytecode is in the file. All else is as with any source file."""

    def __init__(self, name: str, path: str, within: OneFile) -> None:
        super().__init__(name, path)
        self._within = within

    def get_code(self, fullname: str) -> CodeType | None:
        return self._within.code(fullname) or super().get_code(fullname)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None  # a module without a source is not in this file
    return status.st_mtime_ns, status.st_size


def _is_compiled(name: str) -> bool:
    cached = getattr(sys.modules.get(name), "__cached__", None)
    return cached is not None and os.path.exists(cached)


def _is_trusted(status: os.stat_result, package: os.stat_result) -> bool:
    """Return whether only users who may write the sources can have written the file."""
    owners = {0, os.geteuid(), package.st_uid}
    return status.st_uid in owners and not status.st_mode & _OTHERS_WRITE


def _read(path: str, root: str) -> tuple[mmap.mmap | bytes, dict[str, Row]]:
    """Return the file's bytes and the index of modules, which is empty if it is unusable."""
    try:
        with open(path, "rb", buffering=0) as file:
            if not _is_trusted(os.fstat(file.fileno()), os.stat(root)):
                return b"", {}
            data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)  # all of it would take ms
        length = int.from_bytes(data[:8], "little")
        magic, index = marshal.loads(data[8 : 8 + length])  # noqa: S302  trusted as .pyc is
        if magic == MAGIC_NUMBER:
            return data, index
    except (OSError, *_DAMAGED):
        pass  # there is no file yet, or it is another Python's
    return b"", {}


def _write(root: str, path: str) -> None:
    index: dict[str, Row] = {}
    parts: list[bytes] = []
    offset = 0
    for name, source, code, stamp in _compiled(root):
        is_package = source.endswith("/__init__.py")
        index[name] = (is_package, *stamp, offset, len(code))
        parts.append(code)
        offset += len(code)
    head = b""
    while True:  # offsets depend on the length of the index
        moved = {name: (*row[:3], row[3] + 8 + len(head), row[4]) for name, row in index.items()}
        again = marshal.dumps((MAGIC_NUMBER, moved))
        if len(again) == len(head):
            break
        head = again
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        # Users who may read the sources may read this file, too.
        os.fchmod(file.fileno(), os.stat(os.path.join(root, "__init__.py")).st_mode & 0o644)
        file.write(len(again).to_bytes(8, "little") + again)
        file.writelines(parts)


def _compiled(root: str) -> Iterator[tuple[str, str, bytes, tuple[int, int]]]:
    """Yield modules with bytecode that matches their source: name, path, code, stamp."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name.isidentifier() and name != "__pycache__"]
        for file in files:
            source = os.path.join(folder, file)
            stamp = _stamp(source) if file.endswith(".py") else None
            if stamp is None:
                continue
            try:
                with open(cache_from_source(source), "rb", buffering=0) as cached:
                    data = cached.read()
            except OSError:
                continue  # the module is not compiled yet
            mtime, size = stamp[0] // 1_000_000_000, stamp[1]
            head = MAGIC_NUMBER + b"".join(
                (number & 0xFFFF_FFFF).to_bytes(4, "little") for number in (0, mtime, size)
            )
            if data[:_PYC_HEAD] == head:
                words = source[len(root) + 1 : -len(".py")].split("/")
                if words[-1] == "__init__":
                    del words[-1]
                yield ".".join([_PACKAGE, *words]), source, data[_PYC_HEAD:], stamp

# SPDX-License-Identifier: Apache-2.0
"""The libraries of one system as one of its loaders sees them, for any program.

The data are read once, for all programs of the same kind. The loader's own file tells its default
folders. The processor decides which libraries in `glibc-hwcaps` and similar folders it takes.
"""

from __future__ import annotations

import os
from functools import cache
from struct import Struct
from typing import NamedTuple

from soscope.binfmt.elf.lookup import Name
from soscope.errors import FormatError
from soscope.linker.library import (
    Library,
    RefusedFile,
    Stamp,
    demand_files,
    open_image,
    read_regular,
    stamp_of,
)
from soscope.linker.machine import Kind, is_native, machine_of
from soscope.linker.paths import Root
from soscope.model.arch import EM_386, EM_X86_64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# /etc/ld.so.cache, as ldconfig writes it: glibc's `struct cache_file_new` (dl-cache.h).

PATH = "/etc/ld.so.cache"
HWCAPS = "/glibc-hwcaps/"  # folder for builds that need better processors

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC = b"ld.so-1.7.0\0"
_HEAD = "20sIIB19x"  # magic, number of libraries, bytes of strings, byte order
_ENTRY = "iIIIQ"  # flags, name, path, kernel, hwcap
_OLD_ENTRY = 12
_ORDERS = {2: "<", 3: ">"}
_IS_HWCAPS = 1 << 62  # in `hwcap`: DL_CACHE_HWCAP_EXTENSION
_MAX = 1 << 28


def read_cache(
    path: str = PATH,
    *,
    ids: tuple[int, ...] = (0x0303,),
    order: str = "<",
    hwcaps: tuple[str, ...] = (),
    legacy: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Return the result of `parse_cache` for the cache at `path`.

    It is empty if there is no cache, or one of an unknown format. Raises OSError if too many
    files are open.
    """
    data = read_regular(path, _MAX)
    if data is None:
        return {}
    return parse_cache(data, ids=ids, order=order, hwcaps=hwcaps, legacy=legacy)


def parse_cache(
    data: bytes,
    *,
    ids: tuple[int, ...] = (0x0303,),
    order: str = "<",
    hwcaps: tuple[str, ...] = (),
    legacy: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Return soname -> path of the libraries whose flags are among `ids`, the best first.

    If a library has several builds, the first of `hwcaps` (names of folders) counts; builds in
    other folders are not for this processor. `legacy` are the names of further folders that a
    loader before glibc 2.37 uses. `order` is the machine's byte order, which old caches do not
    contain.
    """
    start = 0
    if data.startswith(_OLD_MAGIC) and len(data) >= 16:
        (count,) = Struct(order + "I").unpack_from(data, 12)
        start = 16 + count * _OLD_ENTRY
        start += -start % 8
    if not data.startswith(_MAGIC, start):
        return {}
    order = _ORDERS.get(data[start + 28] if len(data) > start + 28 else 0, order)
    head, entry = Struct(order + _HEAD), Struct(order + _ENTRY)
    if len(data) < start + head.size:
        return {}
    count = head.unpack_from(data, start)[1]
    first = start + head.size
    count = min(count, (len(data) - first) // entry.size)
    best: dict[str, tuple[tuple[int, int], str]] = {}
    rows = entry.iter_unpack(data[first : first + count * entry.size])
    for flags, name, value, _, hwcap in rows:
        if flags not in ids:
            continue
        string = _string(data, start + value)
        rank = _rank(string, hwcap, hwcaps, legacy)
        if rank is None:
            continue
        soname = _string(data, start + name)
        key = rank, ids.index(flags)
        if soname not in best or key < best[soname][0]:
            best[soname] = key, string
    return {soname: path for soname, (_, path) in best.items()}


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    return os.fsdecode(data[at:end]) if end >= 0 else ""


def _rank(path: str, hwcap: int, hwcaps: tuple[str, ...], legacy: frozenset[str]) -> int | None:
    """Return the rank of a build, 0 for the best, None if the loader does not take it."""
    _, is_special, rest = path.partition(HWCAPS)
    if is_special:
        name = rest.partition("/")[0]
        return hwcaps.index(name) if name in hwcaps else None
    worst = len(hwcaps) + 64
    if not hwcap or hwcap & _IS_HWCAPS:
        return worst
    bits = hwcap.bit_count()  # one bit for each folder
    if not legacy.issuperset(path.split("/")[-1 - bits : -1]):
        return None
    return worst - bits


# The folders that a loader was built to search, from the loader's own file.
#
# glibc keeps them in one string, `system_dirs` of elf/dl-load.c: paths that begin and end with a
# slash, each with its NUL. They differ a lot between distributions.

_MAX_LOADERFILE = 1 << 24
_MAX_FOLDERS = 16


class Built(NamedTuple):
    """How a glibc loader was built: its default folders, $LIB, and its version.

    `folders` and `lib` are empty if the file does not contain them. If it contains no version,
    `version` is (2, 0), which stands for loaders before 2.33.
    """

    folders: list[str]
    lib: str
    version: tuple[int, int]


def read(path: str) -> Built | None:
    """Return the data in the file of a glibc loader, None if it cannot be read.

    Raises OSError if too many files are open.
    """
    data = read_regular(path, _MAX_LOADERFILE)
    return None if data is None else parse(data)


def parse(data: bytes) -> Built:
    """Return the same as `read`, from the bytes of a loader."""
    folders = _system_folders(data)
    return Built(folders, _lib(data, folders[0]) if folders else "", _version(data))


def _version(data: bytes) -> tuple[int, int]:
    """Return the version in the text "… release version 2.36." of dl-usage.c."""
    mark = b" release version "
    at = data.find(mark)
    words = data[at + len(mark) : at + len(mark) + 8].split(b".") if at >= 0 else []
    if len(words) < 2 or not words[0].isdigit() or not words[1][:2].isdigit():
        return 2, 0
    return int(words[0]), int(words[1][:2])


def _system_folders(data: bytes) -> list[str]:
    end = 0
    while (at := data.find(b"/lib", end)) >= 0:
        folders, end = _run(data, data.rfind(b"\0", 0, at) + 1)
        if not folders:  # a number may lie directly before it
            folders, end = _run(data, at)
        if folders:
            return folders
        end = max(end, at + 1)
    return []


def _run(data: bytes, start: int) -> tuple[list[str], int]:
    """Return the folders from `start` on, and the position of the first string that is none."""
    folders: list[str] = []
    at = start
    while len(folders) < _MAX_FOLDERS:
        end = data.find(b"\0", at, at + 4096)
        text = data[at:end] if end > at else b""
        is_folder = text[:1] == b"/" == text[-1:] and len(text) > 1
        if not is_folder or not all(33 <= byte < 127 for byte in text):
            break
        folders.append(os.fsdecode(text.rstrip(b"/")))
        at = end + 1
    return folders, at


def _lib(data: bytes, folder: str) -> str:
    """Return $LIB: on Debian it has two parts, elsewhere it is the last part of the folder."""
    whole = folder.strip("/")
    if b"\0" + os.fsencode(whole) + b"\0" in data:
        return whole
    return os.path.basename(folder)


# The properties of this processor that a loader uses: the special builds that it takes, and
# $PLATFORM. glibc: sysdeps/x86_64/dl-hwcaps_subdirs.c, sysdeps/x86/cpu-features.c (update_active,
# `GLRO(dl_platform)`).

_LEVELS = {  # features of each level of the x86-64 psABI, named as in /proc/cpuinfo
    2: "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    3: "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    4: "avx512f avx512bw avx512cd avx512dq avx512vl",
}
_HASWELL = "avx2 bmi1 bmi2 abm movbe popcnt fma"
_AVX512_1 = "avx512cd avx512bw avx512dq avx512vl"
_XEON_PHI = "avx512cd avx512er avx512pf"


def level(has: frozenset[str]) -> int:
    """Return the level (1 to 4) of the x86-64 psABI of a processor with the flags `has`."""
    reached = 1
    for number, names in _LEVELS.items():
        if not has.issuperset(names.split()):
            break
        reached = number
    return reached


def hwcaps(kind: Kind) -> tuple[str, ...]:
    """Return the folders of glibc-hwcaps for this processor, the best first.

    For programs that this processor does not run itself there are none, because their processor
    is not known.
    """
    if not is_native(kind) or kind.machine != EM_X86_64 or kind.bits != 64:
        return ()
    return tuple(f"x86-64-v{number}" for number in range(level(_cpuinfo()[1]), 1, -1))


def legacy(kind: Kind, flags: int = 0) -> tuple[str, ...]:
    """Return the folders for this processor that glibc before 2.37 searches, the best first.

    See _dl_important_hwcaps in elf/dl-hwcaps.c of those versions: every subset of "tls",
    $PLATFORM and the names of some features. The features are only known for the processor of
    this machine.
    """
    parts = ["tls", platform(kind, flags)]
    if is_native(kind) and kind.machine == EM_X86_64:
        vendor, has = _cpuinfo()
        special = has.issuperset(_AVX512_1.split()) and "avx512er" not in has
        if vendor == "GenuineIntel" and special:
            parts.append("avx512_1")
        parts.append("x86_64")
    elif is_native(kind) and kind.machine == EM_386:
        parts.append("sse2")
    parts = [part for part in parts if part]
    subsets = range((1 << len(parts)) - 1, 0, -1)
    listed = [
        "/".join(part for place, part in enumerate(parts) if mask >> (len(parts) - 1 - place) & 1)
        for mask in subsets
    ]
    return tuple(dict.fromkeys(listed))


def platform(kind: Kind, flags: int = 0) -> str:
    """Return $PLATFORM, "" if it is not known or the processor has none."""
    if is_native(kind) and kind.machine == EM_X86_64:
        vendor, has = _cpuinfo()
        if vendor == "GenuineIntel":
            if has.issuperset(_XEON_PHI.split()):
                return "xeon_phi"
            if has.issuperset(_HASWELL.split()):
                return "haswell"
    return machine_of(kind, flags).platform


@cache
def _cpuinfo() -> tuple[str, frozenset[str]]:
    """Return the vendor and the flags of the first processor."""
    vendor, flags = "", ""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "vendor_id":
                    vendor = value.strip()
                elif name.strip() == "flags":
                    flags = value
                    break
    except OSError:
        pass  # no /proc: treat it as a processor without special folders
    return vendor, frozenset(flags.split())


# Before each program, a check finds out whether folders and files have changed.

_MUSL_FOLDERS = ["/lib", "/usr/local/lib", "/usr/lib"]
_WITHOUT_LEGACY = (2, 37)
_MAX_LIBRARIES = 8192
_MAX_NAMES = 1 << 17
_MAX_PATHS = 1 << 16

Found = Library | RefusedFile | None


class System:
    """What a loader finds by itself: in the cache, in LD_LIBRARY_PATH, in default folders.

    `loader` is its path as the target sees it, "" for the usual loader. `library_folders` are the
    folders of LD_LIBRARY_PATH, as paths of this system. `default` are its default folders, `lib`
    and `platform` its values of $LIB and $PLATFORM.
    """

    def __init__(
        self, root: Root, kind: Kind, flags: int, loader: str, library_folders: tuple[str, ...]
    ) -> None:
        self.root = root
        self.kind = kind
        self.library_folders = library_folders
        self._flags = flags
        self._machine = machine_of(kind, flags)
        self.is_musl = os.path.basename(loader).startswith("ld-musl")
        self.loader = loader or self._machine.loader
        self.loader_path = root.host(self.loader)
        self.lib = ""
        self.platform = platform(kind, flags)
        self._legacy: tuple[str, ...] = ()
        self.default = [
            root.host(folder) for folder in (self._musl() if self.is_musl else self._glibc())
        ]
        self.words: dict[str, Name] = {}
        self._hwcaps = () if self.is_musl else hwcaps(kind)
        self._builds = [HWCAPS.strip("/") + "/" + name for name in self._hwcaps]
        self._builds += self._legacy
        self._tops = frozenset(name.partition("/")[0] for name in self._builds)
        self._folders: dict[str, tuple[Stamp, list[str]]] = {}
        self._cache: dict[str, str] | None = None
        self._files: dict[str, tuple[Stamp, Found]] = {}
        self._plain: dict[str, tuple[str, Found]] = {}
        self.state: list[Stamp | None] = []  # of the folders, at the last search

    # ---- the folders ----

    def _glibc(self) -> list[str]:
        built = read(self.loader_path)
        if built is not None and built.version < _WITHOUT_LEGACY:
            self._legacy = legacy(self.kind, self._flags)
        if built is not None and built.folders:
            self.lib = built.lib
            return built.folders
        machine = self._machine
        triplet = machine.triplet
        if triplet and os.path.isdir(self.root.host(f"/usr/lib/{triplet}")):
            self.lib = f"lib/{triplet}"
        else:
            self.lib = machine.lib
        folders = [f"/{self.lib}", f"/usr/{self.lib}", "/lib", "/usr/lib"]
        return list(dict.fromkeys(folders))

    def _musl(self) -> list[str]:
        arch = os.path.basename(self.loader).removeprefix("ld-musl-").partition(".")[0]
        data = read_regular(self.root.host(f"/etc/ld-musl-{arch}.path"), _MAX_PATHS)
        if data is None:
            return _MUSL_FOLDERS
        text = os.fsdecode(data)
        return [folder for folder in text.replace("\n", ":").split(":") if folder]

    def with_builds(self, folder: str) -> list[str]:
        """Return the subfolders with builds for this processor, and the folder itself.

        The list is empty if there is no such folder.
        """
        folder = self.root.resolve(folder)
        stamp = _stamp(folder)
        if stamp is None:
            return []
        known = self._folders.get(folder)
        if known is None or known[0] != stamp:
            listed = [folder]
            if any(os.path.isdir(f"{folder}/{name}") for name in self._tops):
                builds = (f"{folder}/{name}" for name in self._builds)
                listed = [*filter(os.path.isdir, builds), folder]
            if len(self._folders) > _MAX_NAMES:
                self._folders.clear()
            known = self._folders[folder] = stamp, listed
        return known[1]

    def cached(self, name: str) -> str | None:
        """Return the path of `name` in ld.so.cache, as a path of this system, or None."""
        if self.is_musl:
            return None
        if self._cache is None:
            self._cache = read_cache(
                self.root.host(PATH),
                ids=self._machine.ids,
                order=self.kind.order,
                hwcaps=self._hwcaps,
                legacy=frozenset("/".join(self._legacy).split("/")),
            )
        path = self._cache.get(name)
        return None if path is None else self.root.prefix + path

    # ---- files ----

    def open(self, path: str) -> Found:
        """Open the file at `path`, None if there is none.

        Raises OSError if too many files are open, because then it is not known whether the file
        exists.
        """
        try:
            path = self.root.resolve(path)
            stamp = stamp_of(os.stat(path))
        except (OSError, ValueError):
            return None
        known = self._files.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        if len(self._files) > _MAX_LIBRARIES:
            self._files.clear()
        library = self._opened(path, stamp)
        self._files[path] = stamp, library
        return library

    def _opened(self, path: str, stamp: Stamp) -> Found:
        # _dl_map_object_from_fd and open_verify (elf/dl-load.c)
        try:
            image = open_image(path)
            library = Library(path, image, stamp)
            library.rest()
        except FormatError as error:
            return RefusedFile(str(error), is_final=True)
        except OSError as error:
            demand_files(error)
            return RefusedFile((error.strerror or "").lower(), is_final=False)
        if library.kind == self.kind:
            reason = None if self.is_musl else library.reason_not_loaded
            return library if reason is None else RefusedFile(reason, is_final=True)
        has, wants = library.kind, self.kind
        is_final = self.is_musl or (has.bits == wants.bits and has.order != wants.order)
        return RefusedFile("for another kind of machine", is_final=is_final)

    def plain(self, name: str) -> tuple[str, Found]:
        """Return path and file for a name, without any DT_RPATH or DT_RUNPATH."""
        known = self._plain.get(name)
        if known is None:
            known = self.first(name, self.library_folders, self.cached(name), tuple(self.default))
            if len(self._plain) > _MAX_NAMES:
                self._plain.clear()
            self._plain[name] = known
            return known
        if not isinstance(known[1], Library):
            return known
        return known[0], self.open(known[0])  # it may have changed

    def first(
        self, name: str, folders: Iterable[str], path: str | None, last: Iterable[str]
    ) -> tuple[str, Found]:
        """Return path and file of the first `name` in `folders`, at `path`, in folders `last`."""
        wrong: tuple[str, Found] | None = None
        for place in self.places(name, folders, path, last):
            library = self.open(place)
            if isinstance(library, Library):
                return place, library
            if library is not None:
                wrong = wrong or (place, library)
                if library.is_final:
                    return place, library
        return wrong or ("", None)

    def places(
        self, name: str, folders: Iterable[str], path: str | None, last: Iterable[str]
    ) -> Iterator[str]:
        """Yield the paths that the loader tries for a name, in order, even if there is no file."""
        for folder in folders:
            for build in self.with_builds(folder):
                yield f"{build}/{name}"
        if path is not None:
            yield path
        for folder in last:
            for build in self.with_builds(folder):
                yield f"{build}/{name}"

    # ---- changes ----

    def refresh(self) -> None:
        """Forget results if a folder or the cache has changed."""
        state: list[Stamp | None] = []
        for folder in (*self.library_folders, *self.default):
            state.append(_stamp(folder))
            state += [_stamp(build) for build in self.with_builds(folder)[:-1]]
        if not self.is_musl:
            state.append(_stamp(self.root.host(PATH)))
        if state != self.state:
            self.state = state
            self._plain.clear()
            self._cache = None

    def word(self, name: str) -> Name:
        """Return `name` prepared for look-ups."""
        word = self.words.get(name)
        if word is None:
            if len(self.words) > _MAX_NAMES:
                self.words.clear()
            word = self.words[name] = Name(os.fsencode(name))
        return word


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None

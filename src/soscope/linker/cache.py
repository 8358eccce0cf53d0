# SPDX-License-Identifier: Apache-2.0
"""/etc/ld.so.cache, as ldconfig writes it: glibc's `struct cache_file_new` (dl-cache.h)."""

from __future__ import annotations

import os
from struct import Struct

from soscope.linker.openfile import read_regular

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


def read(
    path: str = PATH,
    *,
    ids: tuple[int, ...] = (0x0303,),
    order: str = "<",
    hwcaps: tuple[str, ...] = (),
    legacy: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Return the result of `parse` for the cache at `path`.

    It is empty if there is no cache, or one of an unknown format. Raises OSError if too many
    files are open.
    """
    data = read_regular(path, _MAX)
    if data is None:
        return {}
    return parse(data, ids=ids, order=order, hwcaps=hwcaps, legacy=legacy)


def parse(
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

# SPDX-License-Identifier: Apache-2.0
"""/etc/ld.so.cache, as ldconfig writes it: glibc's `struct cache_file_new` (dl-cache.h)."""

from __future__ import annotations

import os
from struct import Struct

PATH = "/etc/ld.so.cache"

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC = b"ld.so-1.7.0\0"
_HEAD = Struct("<20sII20x")  # magic, number of libraries, bytes of strings
_OLD_HEAD = Struct("<12sI")
_OLD_ENTRY = 12
_ENTRY = Struct("<iIIIQ")  # flags, name, path, kernel, hwcap
_FLAGS = {(64, 62): 0x0303, (32, 3): 0x0003}  # by class and machine: FLAG_ELF_LIBC6 and the ABI
_LEVELS = {  # what /proc/cpuinfo calls the features of each level of the x86-64 psABI
    2: "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    3: "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    4: "avx512f avx512bw avx512cd avx512dq avx512vl",
}


def read(path: str = PATH, *, bits: int = 64, machine: int = 62) -> dict[str, str]:
    """Return soname -> path of the libraries for one kind of machine.

    Of several for the same name it is the one that a loader on this processor takes. Empty
    where there is no cache, or one of a format that is not known.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return {}
    return parse(data, bits=bits, machine=machine, level=processor_level())


def parse(data: bytes, *, bits: int = 64, machine: int = 62, level: int = 4) -> dict[str, str]:
    """Return what `read` returns, from a cache's bytes; `level` is the processor's (1 to 4)."""
    start = 0
    if data.startswith(_OLD_MAGIC) and len(data) >= _OLD_HEAD.size:
        _, count = _OLD_HEAD.unpack_from(data)
        start = _OLD_HEAD.size + count * _OLD_ENTRY
        start += -start % 8
    wanted = _FLAGS.get((bits, machine))
    if wanted is None or not data.startswith(_MAGIC, start):
        return {}
    if len(data) < start + _HEAD.size:
        return {}
    _, count, _ = _HEAD.unpack_from(data, start)
    best: dict[str, tuple[int, str]] = {}
    for index in range(count):
        at = start + _HEAD.size + index * _ENTRY.size
        if at + _ENTRY.size > len(data):
            break
        flags, name, value, _, _ = _ENTRY.unpack_from(data, at)
        if flags != wanted:
            continue
        soname, found = _string(data, start + name), _string(data, start + value)
        needs = _level_of(found)
        if needs <= level and (soname not in best or best[soname][0] < needs):
            best[soname] = needs, found
    return {soname: path for soname, (_, path) in best.items()}


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    return os.fsdecode(data[at:end]) if end >= 0 else ""


def _level_of(path: str) -> int:
    """Return the level that a library in a glibc-hwcaps folder was built for, else 0."""
    _, found, rest = path.partition("/glibc-hwcaps/x86-64-v")
    return int(rest[0]) if found and rest[:1].isdigit() else 0


def processor_level() -> int:
    """Return this processor's level of the x86-64 psABI, 1 to 4."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return 1
    has = set(flags.partition(":")[2].split())
    level = 1
    for number, names in _LEVELS.items():
        if not has.issuperset(names.split()):
            break
        level = number
    return level

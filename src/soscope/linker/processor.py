# SPDX-License-Identifier: Apache-2.0
"""What a loader derives from this processor: the special builds it takes, and $PLATFORM.

glibc: sysdeps/x86_64/dl-hwcaps_subdirs.c, sysdeps/x86/cpu-features.c (update_active,
`GLRO(dl_platform)`).
"""

from __future__ import annotations

from functools import cache

from soscope.linker.machine import Kind, is_native, machine_of
from soscope.model.arch import EM_386, EM_X86_64

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

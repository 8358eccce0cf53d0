# SPDX-License-Identifier: Apache-2.0
"""Time one way to read the slots of many files: map_api.py soscope|lief|pyelftools LIST.

LIST names a file with a path on each line. Prints JSON: seconds, slots and stubs. A peer that
knows no stubs says 0.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def _soscope() -> Callable[[str], tuple[int, int]]:
    import soscope

    def read(path: str) -> tuple[int, int]:
        image = soscope.Image.open(path)
        stubs = sum([len(slot.stubs) for slot in image.slots])
        return len(image.slots), stubs + len(image.stubs_without_slot)

    return read


def _lief() -> Callable[[str], tuple[int, int]]:
    import lief

    lief.logging.disable()

    def read(path: str) -> tuple[int, int]:
        binary = lief.ELF.parse(path)
        count = 0
        for one in binary.pltgot_relocations:
            count += 1
            assert one.address or one.has_symbol
        kinds = ("GLOB_DAT", "IRELATIVE", "TLSDESC")
        for one in binary.dynamic_relocations:
            if any(kind in one.type.name for kind in kinds):
                count += 1
                _ = one.has_symbol and one.symbol.name
        return count, 0

    return read


def _pyelftools() -> Callable[[str], tuple[int, int]]:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    types = {6, 7, 36, 37}  # of x86-64

    def read(path: str) -> tuple[int, int]:
        count = 0
        with open(path, "rb") as file:
            for segment in ELFFile(file).iter_segments():
                if isinstance(segment, DynamicSegment):
                    names = list(segment.iter_symbols())
                    for table in segment.get_relocation_tables().values():
                        for one in table.iter_relocations():
                            entry = one.entry
                            if entry.get("r_info_type") in types:
                                _ = names[entry["r_info_sym"]].name
                                count += 1
        return count, 0

    return read


def main() -> None:
    """Measure what the words say."""
    who, where = sys.argv[1:]
    with open(where, encoding="utf-8", errors="surrogateescape") as file:
        paths = file.read().splitlines()
    read = {"soscope": _soscope, "lief": _lief, "pyelftools": _pyelftools}[who]()
    read(sys.executable)  # imports are not what is asked for
    slots = stubs = 0
    start = time.perf_counter()
    for path in paths:
        some, more = read(path)
        slots += some
        stubs += more
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "slots": slots, "stubs": stubs}))


main()

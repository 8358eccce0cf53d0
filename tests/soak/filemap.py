# SPDX-License-Identifier: Apache-2.0
"""Every slot and every stub of every ELF file of the machine, beside objdump and readelf.

    python -m tests.soak.filemap [DIR…]

Stubs are compared with `objdump -d` of the PLT sections, slots with `readelf -rW`: address, kind,
symbol, version. Then every stub is run under Unicorn: it must reach what its slot holds. Every
disagreement falls into a class; those of `_KNOWN` are explained there, all others make the exit
status 1. /usr/lib and /usr/bin without a folder.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

from soscope.model import arch as machines
from tests.support.truth.elftruth import Row, got_of, slots_by_readelf, stubs_by_objdump
from tests.support.truth.mapcompare import Ours, ours, slot_differences, stub_differences
from tests.support.truth.stubrun import StubRunner

_FOLDERS = ("/usr/lib", "/usr/bin")
_BATCH = 60
_SHOWN = 3  # examples of each class
_CODE = (machines.EM_X86_64, machines.EM_386)  # what the system's objdump disassembles
_MOST = 300 << 20  # bytes of a file that is run: it is in memory twice

# class -> whose fault it is, and why
_KNOWN = {
    "stub: objdump has none (iplt, static)": "objdump names stubs by dynamic relocations alone,"
    " and a static program has none; each was run",
    "partial: e_machine N is not known: no slots, no stubs": "processors that nothing is known of,"
    " and the files of Guile's compiler, which have none",
    "partial: its code is in another file: this one has only debugging information": (
        "what .debug files have no bytes of, readelf does not print either"
    ),
}
_NUMBER = re.compile(r"\b(0x[0-9a-f]+|[0-9]+)\b")


def _classes(path: str, mine: Ours, slots: dict[int, Row]) -> Iterator[tuple[str, str]]:
    """Give (class, detail) of what is wrong with a file by itself, or by running its stubs."""
    for why in mine.partial:
        yield f"partial: {_NUMBER.sub('N', why)}", why
    if mine.machine in _CODE and mine.stubs and os.path.getsize(path) <= _MOST:
        got = got_of(Path(path))
        runner = StubRunner(Path(path), slots, got, got)
        for vaddr, (symbol, _, slot) in mine.stubs.items():
            led = runner.second(vaddr)
            if slot and (led is None or led.slot != slot):
                yield "run: leads elsewhere", f"{vaddr:#x} {symbol} to {led}"


def _compared(batch: list[str]) -> tuple[Counter[str], list[tuple[str, str, str]]]:
    """Return counts, and (class, file, detail) of each disagreement."""
    counts: Counter[str] = Counter()
    found: list[tuple[str, str, str]] = []
    mine = {path: ours(path) for path in batch}
    slots = slots_by_readelf(list(mine))
    code = [path for path, one in mine.items() if one.machine in _CODE]
    stubs = stubs_by_objdump(code) if code else {}
    for path, one in mine.items():
        counts["files"] += 1
        counts["slots"] += len(one.slots)
        counts["stubs"] += len(one.stubs)
        counts["slots of readelf"] += len(slots[path])
        different = list(slot_differences(one, slots[path]))
        if path in stubs:
            counts["stubs of objdump"] += len(stubs[path])
            different += stub_differences(one, stubs[path])
        different += _classes(path, one, slots[path])
        found += [(kind, path, text) for kind, text in different]
    return counts, found


def elf_files(folders: list[str]) -> list[str]:
    """Return every ELF file below some folders, each once."""
    seen: set[tuple[int, int]] = set()
    found = []
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                try:
                    state = os.lstat(path)
                    if (state.st_dev, state.st_ino) in seen or not os.path.isfile(path):
                        continue
                    if os.path.islink(path):
                        continue
                    seen.add((state.st_dev, state.st_ino))
                    with open(path, "rb") as file:
                        if file.read(4) == b"\x7fELF":
                            found.append(path)
                except OSError:
                    continue  # gone, or not ours to read
    return found


def main() -> int:
    """Compare all files; return the exit status."""
    files = sorted(elf_files(sys.argv[1:] or list(_FOLDERS)), key=os.path.getsize)
    batches = [files[at : at + _BATCH] for at in range(0, len(files), _BATCH)]
    counts: Counter[str] = Counter()
    classes: dict[str, list[tuple[str, str]]] = {}
    with Pool(2) as pool:
        for some, found in pool.imap_unordered(_compared, reversed(batches)):
            counts += some
            for kind, path, text in found:
                classes.setdefault(kind, []).append((path, text))
    print(", ".join(f"{number:,} {what}" for what, number in counts.items()))
    for kind, rows in sorted(classes.items()):
        print(f"{kind}: {len(rows):,} in {len({path for path, _ in rows}):,} files")
        if kind in _KNOWN:
            print(f"    {_KNOWN[kind]}")
            continue
        for path, text in rows[:_SHOWN]:
            print(f"    {path}: {text}")
    return 1 if classes.keys() - _KNOWN.keys() else 0


if __name__ == "__main__":
    sys.exit(main())

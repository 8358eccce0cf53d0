# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of object files, and a process that reads them within bounds.

    python -m tests.support.files.damage READER LIMIT SECONDS FIRST COUNT FILE…

A quarter of the copies are cut off, the others have one to eight flipped bits or 32-bit words
overwritten, half of them in headers and tables. Copy number N of the same files is the same
everywhere. READER is "module:function": it is given a path and reads all there is; it returns
what of it is partial. The process has a memory limit of LIMIT times a file's size and some, and
for each copy SECONDS of processor time. It writes one line of JSON for each copy; the one for a
copy that ended the process is missing.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType

from soscope.errors import FormatError
from tests.support.time import patience

SECONDS = 4.0  # of processor time for one copy; a sound one takes milliseconds
_ROOM = 96 << 20  # for what Python itself needs above what it has at the start
_FOLDER = "SOSCOPE_TEST_COPIES"  # where a copy lies that is read
_INTERESTING = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)

Range = tuple[int, int]  # offset and size


class TooLong(BaseException):
    """A copy took more than its time. No reader may catch it by mistake."""


def headers_and_tables(data: bytes) -> list[Range]:
    """Return the parts of a sound file that everything else is found by."""
    if data[:4] == b"\x7fELF":
        return _of_elf(data)
    if data[:4] == b"\xca\xfe\xba\xbe":
        count = int.from_bytes(data[4:8], "big")
        found = [(0, 8 + 20 * count)]
        for at in range(8, 8 + 20 * count, 20):
            offset, size = struct.unpack_from(">II", data, at + 8)
            inside = headers_and_tables(data[offset : offset + size])
            found += [(offset + start, length) for start, length in inside]
        return found
    if data[:4] in {b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"}:
        return _of_macho(data, "<")
    if data[:4] in {b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf"}:
        return _of_macho(data, ">")
    return [(0, min(len(data), 4096))]


def _of_elf(data: bytes) -> list[Range]:
    order, wide = "<>"[data[5] - 1], data[4] == 2
    fields = struct.unpack_from(order + ("16x8xQQQ4xHHHHHH" if wide else "16x8xIII4xHHHHHH"), data)
    programs, sections, each, count, row, rows = *fields[1:3], *fields[4:8]
    found = [(0, 64), (programs, each * count), (sections, row * rows)]
    for at in range(programs, programs + each * count, each or 1):
        kind = struct.unpack_from(order + "I", data, at)[0]
        places = struct.unpack_from(order + ("8xQ16xQ" if wide else "4xI8xI"), data, at)
        if kind in {2, 4, 7, 0x6474E550}:  # DYNAMIC, NOTE, TLS, GNU_EH_FRAME
            found.append((places[0], places[1]))
    for at in range(sections, sections + row * rows, row or 1):
        kind = struct.unpack_from(order + "4xI", data, at)[0]
        where = struct.unpack_from(order + ("24xQQ" if wide else "16xII"), data, at)
        # symbols, relocations, hashes, versions, packed relocations
        if kind in {2, 3, 4, 5, 9, 11, 19, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF}:
            found.append((where[0], where[1]))
    return found


def _of_macho(data: bytes, order: str) -> list[Range]:
    start = 32 if data[:4] in {b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xcf"} else 28
    count, size = struct.unpack_from(order + "II", data, 16)
    found = [(0, start), (start, size)]
    at = start
    for _ in range(count):
        command, length = struct.unpack_from(order + "II", data, at)
        numbers = struct.unpack_from(order + f"{length // 4}I", data, at)
        if command == 2:
            found += [(numbers[2], 12 * numbers[3]), (numbers[4], numbers[5])]
        elif command == 0xB:
            found += [(numbers[14], 4 * numbers[15]), (numbers[16], 8 * numbers[17])]
        elif command & 0x7FFFFFFF == 0x22:
            found += [(numbers[n], numbers[n + 1]) for n in range(2, 12, 2)]
        elif command == 0x80000034:
            found.append((numbers[2], numbers[3]))
        at += length
    return found


def damaged(data: bytes, tables: Sequence[Range], dice: random.Random) -> bytes:
    """Return a damaged copy."""
    if dice.random() < 0.25:
        # As often within the tables as anywhere: at the end there is little to lose.
        tables = [one for one in tables if one[1]]
        start, size = dice.choice([*tables, (0, len(data)), (0, len(data))])
        return data[: dice.randrange(start, max(start + 1, min(len(data), start + size)))]
    out = bytearray(data)
    usable = [one for one in tables if one[1] >= 4 and sum(one) <= len(data)]
    aimed = dice.random() < 0.5 and usable
    for _ in range(dice.randint(1, 8)):
        start, size = dice.choice(usable) if aimed else (0, len(data))
        at = start + dice.randrange(size)
        if dice.random() < 0.5:
            out[at] ^= 1 << dice.randrange(8)
            continue
        at = min(at & ~3, len(data) - 4)
        word = dice.choice(_INTERESTING) if dice.random() < 0.5 else dice.getrandbits(32)
        out[at : at + 4] = word.to_bytes(4, "little")
    return bytes(out)


def copy(number: int, files: Sequence[Path]) -> tuple[Path, bytes]:
    """Return the file that copy `number` is made of, and its bytes."""
    path = files[number % len(files)]
    data = path.read_bytes()
    seed = f"{number} {len(data)}"
    return path, damaged(data, headers_and_tables(data), random.Random(seed))


# ---- the process that reads ----


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # a handler's two
    raise TooLong


def _look(reader: Callable[[str], object], path: str, seconds: float) -> tuple[str, str]:
    """Read one copy: say what became of it."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        partial = reader(path)
    except FormatError as error:
        if not error.field or error.offset is None:
            return "fault", f"names no field or no offset: {error.message}"
        return "error", error.message
    except (Exception, TooLong):  # noqa: BLE001  # whatever comes is the fault looked for
        return "fault", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ("partial", str(partial)) if partial else ("whole", "")


def _work(name: str, limit: int, seconds: float, numbers: range, files: list[Path]) -> None:
    import_module("numpy")  # what soscope imports late; its libraries reserve much for threads
    module, _, function = name.partition(":")
    reader: Callable[[str], object] = getattr(import_module(module), function)
    for path in files:
        reader(str(path))  # sound: everything is imported now
    status = Path("/proc/self/status").read_text(encoding="ascii")
    now = int(status.partition("VmSize:")[2].split()[0]) << 10
    signal.signal(signal.SIGPROF, _stop)
    place = os.path.join(os.environ[_FOLDER], "copy")
    for number in numbers:
        path, data = copy(number, files)
        Path(place).write_bytes(data)
        memory = now + _ROOM + limit * len(data)
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))
        result, why = _look(reader, place, seconds)
        row = {"number": number, "file": str(path), "result": result, "why": why}
        print(json.dumps(row), flush=True)


# ---- asking it ----


def check(
    reader: str, files: Sequence[Path], count: int, *, limit: int = 16, seconds: float = SECONDS
) -> Counter[str]:
    """Have `reader` read `count` damaged copies of `files`.

    Returns how many were "whole", "partial" and "error". AssertionError with the number of the
    copy where one led to a crash, to anything but a FormatError, or beyond the limits.
    """
    said: Counter[str] = Counter()
    seconds = patience.limit(seconds)
    numbers = [str(limit), str(seconds), "0", str(count)]
    command = [sys.executable, "-m", "tests.support.files.damage", reader, *numbers]
    path = os.pathsep.join(path for path in sys.path if path)
    with tempfile.TemporaryDirectory() as folder:  # a reader may end its process at once
        done = subprocess.run(
            [*command, *map(str, files)],
            capture_output=True,
            text=True,
            timeout=patience.limit() + count * seconds,
            check=False,
            env={**os.environ, "PYTHONPATH": path, _FOLDER: folder},
            cwd=Path(__file__).resolve().parents[3],
        )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    faults = []
    for row in rows:
        said[row["result"]] += 1
        if row["result"] == "fault":
            faults.append(f"copy {row['number']} of {row['file']}:\n{row['why']}")
    if len(rows) < count:
        faults.append(f"copy {len(rows)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    assert not faults, f"{len(faults)} of {count}:\n" + "\n".join(faults[:5])
    return said


def main(words: list[str]) -> None:
    """Read copies; with a COUNT of 0 write the first one to "damaged" instead."""
    reader, limit, seconds, first, count = words[:5]
    files = [Path(word) for word in words[5:]]
    numbers = range(int(first), int(first) + int(count))
    if numbers:
        _work(reader, int(limit), float(seconds), numbers, files)
    else:
        Path("damaged").write_bytes(copy(int(first), files)[1])


if __name__ == "__main__":
    main(sys.argv[1:])

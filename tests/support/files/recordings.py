# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of recordings, each read by a verb in a process of its own.

    python -m tests.support.files.recordings FIRST COUNT FILE…

Copy number N of the same files is the same everywhere. Most copies are damaged as a disk damages
them; of every third one a block holds other words, and the checksum says that it is right. One
line of JSON says of each copy what is wrong with what a verb did: with a copy that a disk has
damaged, an exit status of 0 promises the output of the sound recording.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from soscope.recording import format as form
from soscope.verbs.main import main

SECONDS = 10  # of processor time
MOST = 1000 << 10  # KiB
_PAGE = 4096
_ODD = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_WORDS = ("-1", "0", "1e308", "18446744073709551616", "null", "[]", "{}", '"x"', "true", "1.5")
_VALUE = re.compile(rb'-?\d+(?:\.\d+)?|"[^"]*"|null|true|false')
_TEXTS = (form.META, form.PROGRAM, form.EVENTS, form.END, form.OBJECTS, form.REPORTED, form.SAMPLES)
_FAULTS = re.compile(r"Traceback \(most recent|this is a bug in soscope|Fatal Python error")
_VERBS = {
    "trace": [
        ["report"],
        ["report", "-c", "--by", "caller"],
        ["report", "--json"],
        ["report", "--tree", "-k", "-y", "-T"],
        ["report", "-c", "--histogram", "--format", "md"],
        *(["export", "--format", each] for each in ("perfetto", "chrome", "firefox")),
        *(["export", "--format", each] for each in ("speedscope", "folded", "csv", "jsonl")),
    ],
    "mem": [
        ["mem", "report"],
        ["mem", "report", "--json"],
        ["mem", "leaks"],
        ["mem", "report", "--peak"],
        ["mem", "report", "--temporary"],
        ["mem", "flame"],
        ["mem", "diff"],
    ],
    "prof": [
        ["prof", "report"],
        ["prof", "report", "--json"],
        ["prof", "diff"],
        ["prof", "flame"],
        *(["export", "--format", each] for each in ("perfetto", "speedscope", "folded")),
        *(["export", "--format", each] for each in ("callgrind", "json")),
    ],
}


class Seen(NamedTuple):
    """What a verb did."""

    status: int
    out: str
    err: str
    peak: int


# ---- damage ----------------------------------------------------------------------------


def _bits(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 3, 20))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _words(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 5, 50))):
        struct.pack_into("<I", data, draw.randrange(len(data) - 4) & ~3, draw.choice(_ODD))


def _cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _lost_page(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(max(len(data) // _PAGE, 1)) * _PAGE
    data[at : at + _PAGE] = bytes(len(data[at : at + _PAGE]))


def _twice(data: bytearray, draw: random.Random) -> None:
    at, size = draw.randrange(len(data)), draw.randrange(1, 3000)
    data[at:at] = data[at : at + size]


_RAW: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _bits,
    _words,
    _cut,
    _lost_page,
    _twice,
)


def _blocks(data: bytes) -> list[tuple[int, int, int, int]]:
    """Return (offset, type, length, flags) of the blocks."""
    blocks, at = [], 0
    while at + form.HEADER.size <= len(data):
        magic, kind, length, _, flags = form.HEADER.unpack_from(data, at)
        if magic != form.MAGIC:
            break
        blocks.append((at, kind, length, flags))
        at += form.padded(length)
    return blocks


def _changed(kind: int, body: bytearray, draw: random.Random) -> bytes:
    """Return what a block holds with some of it changed."""
    values = list(_VALUE.finditer(body)) if kind in _TEXTS else []
    if values:
        old = draw.choice(values)
        return bytes(body[: old.start()] + draw.choice(_WORDS).encode() + body[old.end() :])
    for _ in range(draw.choice((1, 4, 40))):
        width = draw.choice((1, 4, 8))
        at = draw.randrange(len(body)) & ~(width - 1)
        value = draw.choice([*_ODD, draw.getrandbits(64), 1 << 63, (1 << 64) - 1])
        if at + width <= len(body):
            body[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    return bytes(body)


def _made_right(data: bytes, draw: random.Random) -> bytes:
    """Return a recording with a changed block whose checksum is right."""
    blocks = _blocks(data)
    kind = draw.choice(sorted({kind for _, kind, length, _ in blocks if length}))
    at, _, length, flags = draw.choice([each for each in blocks if each[1] == kind and each[2]])
    start = at + form.HEADER.size
    body = _changed(kind, bytearray(data[start : start + length]), draw)
    made = b"".join(form.block(kind, body, flags=flags & form.REWRITTEN))
    return data[:at] + made + data[at + form.padded(length) :]


def damaged(data: bytes, number: int) -> tuple[bytes, str]:
    """Return copy `number` of a recording, and what was done to it."""
    draw = random.Random(number)
    if number % 3 == 2:
        return _made_right(data, draw), "made right"
    copy = bytearray(data)
    how = _RAW[number // 3 % len(_RAW)]
    how(copy, draw)
    return bytes(copy), how.__name__.strip("_")


# ---- reading ---------------------------------------------------------------------------


def verbs_of(file: Path) -> list[list[str]]:
    """Return the verbs that read a recording of this name."""
    return _VERBS[file.name.partition("-")[0]]


def seen(verb: Sequence[str], file: Path, folder: Path) -> Seen:
    """Have a verb read a file, in a child of this process."""
    words = [*verb, str(file)]
    if verb[-1] == "diff":
        words.append(str(file))
    made = folder / "made.html"
    made.unlink(missing_ok=True)
    if verb[0] == "export" or verb[-1] == "flame":
        words += ["-o", str(made)]
    names = [folder / "out", folder / "err"]
    child = os.fork()
    if not child:
        status = 70
        with contextlib.suppress(BaseException):
            for number, name in enumerate(names, 1):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            sys.argv = ["soscope", *words]
            status = main(words)
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    _, ended, usage = os.wait4(child, 0)
    out, err = (name.read_text(errors="replace") for name in names)
    if made.exists():
        out += made.read_text(errors="replace")
    return Seen(os.waitstatus_to_exitcode(ended), out, err, usage.ru_maxrss)


def faults_of(now: Seen, sound: Seen, how: str) -> list[str]:
    """Return what is wrong with what a verb made of a damaged copy."""
    faults = []
    if now.status < 0 or now.status > 5:
        faults.append(f"status {now.status}")
    if now.peak > MOST:
        faults.append(f"{now.peak >> 10} MiB")
    if found := _FAULTS.search(now.err):
        faults.append(now.err[found.start() :][-1500:])
    if how != "made right" and now.status == 0 and now.out != sound.out:
        faults.append("another output, and status 0")
    return faults


def read_all(first: int, count: int, files: Sequence[Path]) -> None:
    """Print a line of JSON for each copy."""
    sound: dict[tuple[Path, int], Seen] = {}
    contents = {file: file.read_bytes() for file in files}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(first, first + count):
            file = files[number % len(files)]
            verbs = verbs_of(file)
            at = number // len(files) % len(verbs)
            copy = folder / file.name
            if (file, at) not in sound:
                copy.write_bytes(contents[file])
                sound[file, at] = seen(verbs[at], copy, folder)
                if sound[file, at].status not in (0, 1, 2):  # 2: it holds nothing of that kind
                    raise AssertionError(f"{verbs[at]} {file.name}: {sound[file, at]}")
            data, how = damaged(contents[file], number)
            copy.write_bytes(data)
            faults = faults_of(seen(verbs[at], copy, folder), sound[file, at], how)
            said = {"number": number, "file": file.name, "verb": " ".join(verbs[at]), "how": how}
            print(json.dumps({**said, "faults": faults}), flush=True)


if __name__ == "__main__":
    read_all(int(sys.argv[1]), int(sys.argv[2]), [Path(name) for name in sys.argv[3:]])

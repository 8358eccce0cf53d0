# SPDX-License-Identifier: Apache-2.0
"""Run a command in a session that records its memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from soscope.binfmt.elf.image import ElfImage
from soscope.control.instrument import Instrument
from soscope.control.outcome import Outcome
from soscope.control.session import Session
from soscope.control.settings import SessionSettings
from soscope.entry.byloader import is_loader, program_of
from soscope.errors import FormatError, UsageError
from soscope.instruments.mem.rss import Divide, RssInstrument

_INTERPRETER = re.compile(rb"(?:python|pypy|ruby|irb|pytest|gunicorn)[0-9.]*$")
_FIRST_LINE = 256  # bytes of a script that are looked at


class MemSettings:
    """What to record of a command's memory.

    `objects` and `blocks`: which of them, `types`: of objects counts by type alone; `collect`:
    garbage first, `qualname`: types by qualified name. One in `sample_bytes` bytes of objects and
    blocks is chosen, None: all. `record` is the path of the recording. `divide` tells the
    parts of a process's resident memory, None: nobody asks.
    """

    __slots__ = (
        "blocks",
        "collect",
        "command",
        "divide",
        "follow",
        "objects",
        "qualname",
        "record",
        "sample_bytes",
        "types",
    )

    def __init__(
        self,
        command: list[str],
        record: str,
        *,
        objects: bool = False,
        blocks: bool = False,
        types: bool = False,
        sample_bytes: int | None = None,
        collect: bool = False,
        qualname: bool = False,
        follow: bool = False,
        divide: Divide | None = None,
    ) -> None:
        self.command = command
        self.record = record
        self.objects = objects
        self.blocks = blocks
        self.types = types
        self.sample_bytes = sample_bytes
        self.collect = collect
        self.qualname = qualname
        self.follow = follow
        self.divide = divide


def is_interpreter(command: Sequence[str]) -> bool:
    """Say whether a command runs an interpreter whose objects are known: by its name, or `#!`."""
    import shutil

    path = shutil.which(command[0]) or command[0]
    path = _started_by(path, command) or path
    name = os.fsencode(os.path.basename(os.path.realpath(path)))
    if _INTERPRETER.match(os.fsencode(os.path.basename(path))) or _INTERPRETER.match(name):
        return True
    try:
        with open(path, "rb") as file:
            first = file.read(_FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        return False  # the launch will say what is wrong
    words = [os.path.basename(word) for word in first[2:].split()]
    return first.startswith(b"#!") and any(_INTERPRETER.match(word) for word in words)


def _started_by(path: str, command: Sequence[str]) -> str | None:
    """Return the program that a command starts whose first word is a loader, None for others."""
    try:
        with open(path, "rb", buffering=0) as file:
            image = ElfImage.from_descriptor(file.fileno(), path)
            if image.interpreter is None and is_loader(image):
                return program_of(list(command))
    except (OSError, FormatError):
        return None  # a script, or what the launch will refuse
    return None


def instruments_of(settings: MemSettings) -> list[Instrument]:
    """Return the instruments that record what is wanted. Raises UsageError."""
    instruments: list[Instrument] = []
    rss = None if settings.divide is None else RssInstrument(settings.divide)
    if settings.objects:
        instruments.append(_objects(settings, rss))
    if settings.blocks:
        if settings.types:
            raise UsageError("--mode count is not built yet for blocks")
        from soscope.instruments.mem.blocks import BlocksInstrument

        instruments.append(BlocksInstrument(settings.sample_bytes))
    if rss is not None:
        instruments.append(rss)
    return instruments


def _objects(settings: MemSettings, rss: RssInstrument | None) -> Instrument:
    from soscope.instruments.mem.objects import ObjectsInstrument

    return ObjectsInstrument(
        types=settings.types,
        collect=settings.collect,
        qualname=settings.qualname,
        sample_bytes=settings.sample_bytes,
        rss=rss,
    )


def run_mem(settings: MemSettings, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run the command to its end, and record it.

    Raises UsageError, LaunchError, AgentError and RecordingError before it runs.
    """
    session = Session(
        SessionSettings(settings.command, follow=settings.follow, record=settings.record),
        instruments_of(settings),
        tell,
    )
    return session.run()

# SPDX-License-Identifier: Apache-2.0
"""What the loader itself says that it has bound, to compare with what soscope reads."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

# The loader writes a line in two pieces: that of another thread may stand between them.
_PIECE = re.compile(
    r"binding file (.+?) \[\d+\] to (.+?) \[\d+\]: (?:normal|protected|weak) symbol `([^']+)'"
)


class Bound(NamedTuple):
    """What a line of LD_DEBUG=bindings says; images by their real paths."""

    importer: str
    symbol: str
    provider: str


def debugging(folder: Path) -> dict[str, str]:
    """Return the environment in which glibc's loader writes down what it binds."""
    return {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(folder / "bindings")}


def told(folder: Path, pid: int, program: str) -> set[Bound]:
    """Return what the loader of a process has written so far.

    `program` is its main image, which the loader calls by argv[0].
    """
    found = set()
    text = (folder / f"bindings.{pid}").read_text(errors="surrogateescape")
    for *images, symbol in _PIECE.findall(text):
        importer, provider = (
            os.path.realpath(one) if "/" in one else one if "linux-" in one else program
            for one in images
        )
        found.add(Bound(importer, symbol, provider))
    return found

# SPDX-License-Identifier: Apache-2.0
"""What is made once for all workers of a test run: the first makes it, the others wait."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the only process that makes `path`; who waited looks whether it is there by now.

    Its folder is made where it is missing. The kernel unlocks it for a worker that dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

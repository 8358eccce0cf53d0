# SPDX-License-Identifier: Apache-2.0
"""How structures lie on other machines is what compilers for those say."""

from __future__ import annotations

import sys

from tests.support.machines.crossed import TRIPLETS
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.matrix import REPOSITORY


def test_the_table_is_what_the_script_writes() -> None:
    need("clang")
    for triplet in TRIPLETS.values():
        need(f"/usr/{triplet}/include/stdio.h")
    done = run([sys.executable, REPOSITORY / "scripts/layouts.py", "--check"])
    assert (done.returncode, done.stderr) == (0, "")

# SPDX-License-Identifier: Apache-2.0
"""What a test needs of its machine.

A missing tool skips the test on a developer's machine and fails it in CI: a run that
quietly tests less is not a green one.
"""

from __future__ import annotations

import os
import shutil

import pytest

# A reason that begins so is accepted in CI too (see conftest.py).
NOT_HERE = "not here: "


def strict() -> bool:
    """Tell whether a missing tool is a failure (CI, or SOSCOPE_REQUIRE_TOOLS=1)."""
    return any(
        os.environ.get(name, "").lower() in {"1", "true", "yes"}
        for name in ("CI", "SOSCOPE_REQUIRE_TOOLS")
    )


def need(*tools: str) -> str:
    """Return the path of the first of `tools`, having made sure that all are there.

    A tool is a command on PATH, or an absolute path of a file.
    """
    found = []
    for tool in tools:
        path = tool if os.path.isabs(tool) and os.path.exists(tool) else shutil.which(tool)
        if path is None:
            message = f"{tool} is not installed; 'make test' as root installs it"
            if strict():
                pytest.fail(message)
            pytest.skip(message)
        found.append(path)
    return found[0]


def not_here(reason: str) -> None:
    """Skip, in CI too: the kernel or the processor cannot do what the test looks at."""
    pytest.skip(NOT_HERE + reason)

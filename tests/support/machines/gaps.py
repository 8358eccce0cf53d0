# SPDX-License-Identifier: Apache-2.0
"""What is known not to work yet: test ids, and why. A test here may fail; all others may not.

Each entry is a gap of the tool or of its test that somebody is to close; docs/reference/
limitations.md tells users of those that concern them.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

# glob on the test's id -> reason
GAPS = {
    "*test_hazards.py::*[[]clone_thread-*": "threads that share a thread pointer race for units",
}


def gap(test_id: str) -> str | None:
    """Return why the test may fail, None if it may not."""
    for pattern, reason in GAPS.items():
        if fnmatchcase(test_id, pattern):
            return reason
    return None

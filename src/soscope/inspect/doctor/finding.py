# SPDX-License-Identifier: Apache-2.0
"""A finding of the doctor: one thing that was examined, and its state."""

from __future__ import annotations

OK = "ok"  # works
LIMITED = "limited"  # works partly, or with disadvantages
MISSING = "missing"  # does not work
INFO = "info"  # neither good nor bad


class Finding:
    """One thing that was examined.

    `name` is the thing, `state` one of the constants above, `text` one line for users. `repair`
    is the line to type, or the thing to do, None if nothing needs to be, or can be, done.
    """

    __slots__ = ("name", "repair", "state", "text")

    def __init__(self, name: str, state: str, text: str, repair: str | None = None) -> None:
        self.name = name
        self.state = state
        self.text = text
        self.repair = repair


class PagePart:
    """Findings that belong together, under a `title`."""

    __slots__ = ("findings", "title")

    def __init__(self, title: str, findings: list[Finding]) -> None:
        self.title = title
        self.findings = findings

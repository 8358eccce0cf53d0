# SPDX-License-Identifier: Apache-2.0
"""A finding of the doctor: one thing that was looked at, and how it is."""

from __future__ import annotations

OK = "ok"  # works
LIMITED = "limited"  # works in part, or in a worse way
MISSING = "missing"  # does not work
INFO = "info"  # neither good nor bad


class Finding:
    """One thing that was looked at.

    `name` is what, `state` one of the constants above, `text` one line for people, `repair`
    the line to type, or to do, None where there is nothing to repair or nothing can be done.
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

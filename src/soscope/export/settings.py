# SPDX-License-Identifier: Apache-2.0
"""What an export is told: which format, and what a stack weighs."""

from __future__ import annotations

# format -> endings of files that mean it
ENDINGS: dict[str, tuple[str, ...]] = {
    "perfetto": (".pftrace", ".perfetto-trace"),
    "chrome": (".chrome.json",),
    "firefox": (".firefox.json",),
    "speedscope": (".speedscope.json",),
    "folded": (".folded",),
    "parquet": (".parquet",),
    "csv": (".csv",),
    "jsonl": (".jsonl",),
}
FORMATS = tuple(ENDINGS)

NANOSECONDS, CALLS = "ns", "calls"
WEIGHTS = (NANOSECONDS, CALLS)


class ExportSettings:
    """`weight`: of folded stacks; `string_limit`: bytes of a string to show."""

    __slots__ = ("string_limit", "weight")

    def __init__(self, *, weight: str = NANOSECONDS, string_limit: int = 32) -> None:
        self.weight = weight
        self.string_limit = string_limit


def format_of(path: str) -> str | None:
    """Return the format that a file's ending means; None where it means none.

    >>> from soscope.export.settings import format_of
    >>> format_of("run.pftrace")
    'perfetto'
    """
    for name, endings in ENDINGS.items():
        if path.lower().endswith(endings):
            return name
    return None

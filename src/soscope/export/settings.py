# SPDX-License-Identifier: Apache-2.0
"""Settings of an export: the format, and the weights of stacks."""

from __future__ import annotations

# format -> endings of its files; endings with two parts precede those with one
ENDINGS: dict[str, tuple[str, ...]] = {
    "perfetto": (".pftrace", ".perfetto-trace"),
    "chrome": (".chrome.json",),
    "firefox": (".firefox.json",),
    "speedscope": (".speedscope.json",),
    "folded": (".folded",),
    "parquet": (".parquet",),
    "csv": (".csv",),
    "jsonl": (".jsonl",),
    "callgrind": (".callgrind",),
    "pprof": (".pprof", ".pb.gz"),
    "otlp": (".otlp",),
    "gmon": (),
    "json": (".json",),
}
FORMATS = tuple(ENDINGS)
BOTH_FORMATS = ("perfetto", "chrome", "firefox", "speedscope", "folded")
TIMED_FORMATS = ("perfetto", "chrome", "firefox", "speedscope")  # with times of calls
LINED_FORMATS = ("callgrind",)  # formats that identify functions by source files
CALL_FORMATS = (*BOTH_FORMATS, "parquet", "csv", "jsonl")  # formats for a recording of calls
PROFILE_FORMATS = (*BOTH_FORMATS, "callgrind", "gmon", "pprof", "otlp", "json")

NANOSECONDS, CALLS, SAMPLES = "ns", "calls", "samples"
WEIGHTS = (NANOSECONDS, CALLS, SAMPLES)


class ExportSettings:
    """`weight` of folded stacks, None for the best; `string_limit`: bytes of a string to print."""

    __slots__ = ("string_limit", "weight")

    def __init__(self, *, weight: str | None = None, string_limit: int = 32) -> None:
        self.weight = weight
        self.string_limit = string_limit


def format_of(path: str) -> str | None:
    """Return the format for a file's ending, None if it has none.

    >>> from soscope.export.settings import format_of
    >>> format_of("run.pftrace")
    'perfetto'
    """
    for name, endings in ENDINGS.items():
        if path.lower().endswith(endings):
            return name
    return None

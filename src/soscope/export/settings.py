# SPDX-License-Identifier: Apache-2.0
"""What an export is told: which format, and what a stack weighs."""

from __future__ import annotations

# format -> endings of files that mean it; one of two parts stands before one of one
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
TIMED_FORMATS = ("perfetto", "chrome", "firefox", "speedscope")  # that say when a call was
LINED_FORMATS = ("callgrind",)  # that tell functions apart by their source files
CALL_FORMATS = (*BOTH_FORMATS, "parquet", "csv", "jsonl")  # of a recording of calls
PROFILE_FORMATS = (*BOTH_FORMATS, "callgrind", "gmon", "pprof", "otlp", "json")

NANOSECONDS, CALLS, SAMPLES = "ns", "calls", "samples"
WEIGHTS = (NANOSECONDS, CALLS, SAMPLES)


class ExportSettings:
    """`weight`: of folded stacks, None: the best; `string_limit`: bytes of a string to show."""

    __slots__ = ("string_limit", "weight")

    def __init__(self, *, weight: str | None = None, string_limit: int = 32) -> None:
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

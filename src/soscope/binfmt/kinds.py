# SPDX-License-Identifier: Apache-2.0
"""Recognise a file that a command cannot read by its first bytes, and name a tool that can."""

from __future__ import annotations

LONGEST = 8  # bytes needed to recognise a file

_KINDS = (
    (b"SOSR", "a recording of soscope", "soscope report {0} shows it, or says which verb does"),
    (b"\x7fELF", "an ELF file", "soscope check {0} reads it"),
    (b"gmon", "a profile of gprof", "soscope prof report --image PROGRAM {0} shows it"),
    (b"PERFILE2", "a recording of perf", "perf report -i {0} shows it"),
    (b"\x1f\x8b", "compressed by gzip", "gunzip < {0} gives what is in it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unzstd < {0} gives what is in it"),
    (b"{", "a JSON document", "soscope writes it and does not read it"),
)
_TEXT = frozenset(range(0x20, 0x7F)) | frozenset(b"\t\n\r\x1b")


def kind_of(begin: bytes, path: str) -> tuple[str, str | None]:
    """Return the kind of a file with this beginning, and a hint: ("an ELF file", "soscope…").

    The kind is "" if the bytes do not tell.
    """
    for magic, what, hint in _KINDS:
        if begin.startswith(magic):
            return what, hint.format(path)
    if not begin:
        return "empty", None
    return ("a text" if _TEXT.issuperset(begin) else ""), None

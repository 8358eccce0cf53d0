# SPDX-License-Identifier: Apache-2.0
"""What depends on the processor stands in files that say so, and nowhere else in the agent."""

from __future__ import annotations

import re

import pytest

from tests.agent.hosted import AGENT

OWN = ("arch_", "code_")
WORDS = {
    "instructions": r"\b(?:__)?asm(?:__)?\b|__builtin_ia32|\b(?:rdtsc|fxsave\w*|endbr64|xadd)\b",
    "registers": r"%fs|\b(?:[re][abcd]x|[re][sd]i|[re][bsi]p|r(?:8|9|1[0-5]))\b",
    "relocations": r"\bR_X86_64_\w+",
    "system calls": r"\bSYS_\w+ = \d",
    "thread ids": r"0x2d0\b",
}


def found(pattern: str, *, own: bool) -> list[str]:
    """Return file and line of each match, in the files of a processor or in the others."""
    return [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted((AGENT / "agent").rglob("*.*"))
        if path.name.startswith(OWN) is own
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]


@pytest.mark.parametrize("what", WORDS)
def test_only_files_of_a_processor_know_it(what: str) -> None:
    assert found(WORDS[what], own=True), "the pattern finds nothing"
    assert not found(WORDS[what], own=False)


def test_code_is_read_in_files_of_a_processor() -> None:
    """A file that decodes instructions is one of them: no other includes the decoder."""
    includes = r'#include "\w+/(?:code|arch_)\w*\.\w+"'
    assert found(includes, own=True)
    assert [line.partition(":")[0] for line in found(includes, own=False)] == ["arch.h"]

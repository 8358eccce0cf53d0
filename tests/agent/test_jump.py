# SPDX-License-Identifier: Apache-2.0
"""code_x86_64_jump.c changes the loader's empty function by the launcher's own rule."""

from __future__ import annotations

import random
from pathlib import Path

from soscope.entry.isa import arch
from tests.agent import hosted

AT = 0x7F00_1234_5678
STARTS = (b"\xc3", b"\xf3\x0f\x1e\xfa\xc3", b"\xf3\x0f\x1e\xfa", b"\x55", b"\xf2\xc3")
PADDING = (
    *(b"\x90", b"\xcc", b"\x66\x90", b"\x0f\x1f\x00", b"\x0f\x1f\x40\x00"),
    *(b"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", b"\x0f\x1f\x44\x00\x00"),
    *(b"\x0f\x1f\x80\x00\x00\x00\x00", b"\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"),
    *(b"\x31\xc0", b"\x48\x89\xf8", b"\x0f\x1f\xc0", b"\x66\x0f", b"\x0f", b"\x00", b"\x55"),
)
# musl's `static void dummy(void)` as gcc -Os lays it out: the next function begins at once
UNPADDED = b"\xc3\x48\x85\xff\x74\x05\xe9\x10\x20\x30\x00\xc3\x31\xc0\xc3"


def samples() -> list[tuple[int, int, bytes]]:
    """Make empty functions, and others, with and without padding."""
    dice = random.Random(11)
    found = [(AT, AT + 0x1000, UNPADDED)]
    for _ in range(4000):
        padding = b"".join(dice.choices(PADDING, k=dice.randrange(5)))
        at = AT + dice.choice((0, 0, 0, 8, 4, 1))
        to = at + dice.choice((5, -0x1000, 0x7FFFFFFF, 0x80000004, 0x80000005, -(1 << 31) + 4))
        found.append((at, to, dice.choice(STARTS) + padding))
    size = arch.EMPTY_FUNCTION_SIZE
    return [(at, to, code[:size].ljust(size, b"\0")) for at, to, code in found]


def test_the_agent_changes_what_the_launcher_would_change(tmp_path: Path) -> None:
    wanted = samples()
    file = tmp_path / "samples"
    file.write_text("".join(f"{at:x} {to:x} {code.hex()}\n" for at, to, code in wanted))
    answers = hosted.check("jump", file).split()
    expected = [arch.jump(*one) for one in wanted]
    assert answers == [one.hex() if one else "none" for one in expected]
    assert answers[0] == "none"
    assert 100 < answers.count("none") < len(answers) - 100

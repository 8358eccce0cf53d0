# SPDX-License-Identifier: Apache-2.0
"""The machine code behind hooked slots: its bytes are the instructions beside them."""

from __future__ import annotations

from soscope.hooking.isa import code
from tests.support.targets.build import made


def assembled(lines: list[str]) -> bytes:
    """Return what the assembler makes of some lines."""
    source = "\n".join([".intel_syntax noprefix", *lines, ""])
    commands = ("as -o code.o code.s", "objcopy -O binary -j .text code.o code.bin")
    return (made({"code.s": source}, *commands) / "code.bin").read_bytes()


def test_the_text_is_what_it_says() -> None:
    lines = [
        "start:",
        f".set common, start + {code.PID}",
        f".set table, start + {code.TABLE}",
    ]
    for line in code.TEXT.splitlines():
        if line.startswith("#") or not line:
            continue
        words = line.strip() if line.startswith(" ") else line.split(None, 1)[1]
        # names are aligned with what the assembler fills up with
        is_filled = line.startswith(" ") and words in {"leave:", "write:", "exchange:"}
        lines += [".p2align 4"] * is_filled + [words]
    made = assembled(lines)
    assert made[: len(code.CODE)] == code.CODE
    assert not made[len(code.CODE) :].strip(b"\x90\x66\x2e\x0f\x1f\x84\x00\x44\x40\x80")


def test_thunks_lead_to_their_own_data() -> None:
    lines = ["start:", f".set data, start + {code.PAGE}"]
    for index in range(code.THUNKS):
        at = f"data + {index * code.DATA_SIZE}"
        lines += [
            f".org {index * code.THUNK_SIZE}, 0xcc",
            *("endbr64", f"lea r11, [rip + {at} + {code.TARGET}]", "jmp [r11]"),
            f".org {index * code.THUNK_SIZE + code.WAY}, 0xcc",
            *("endbr64", f"mov r11, [rip + {at} + {code.SESSION_AT}]", "mov r11, [r11]"),
            *(f"cmp r11, [rip + {at} + {code.SESSION}]", "jne 1f"),
            f"jmp [rip + {at} + {code.TRACED}]",
            f"1: jmp [rip + {at} + {code.UNTRACED}]",
        ]
    lines.append(f".org {code.PAGE}, 0xcc")
    assert assembled(lines) == code.thunks()


def test_the_code_fits_in_its_pages() -> None:
    assert len(code.CODE) <= code.PAGE
    assert len(code.thunks()) == code.PAGE
    assert code.HOLDS_GIL + code.WORD <= code.TABLE
    assert code.TEXT_SIZE == code.TABLE + 2 * code.COMPANIONS


def test_thread_pointers_spread_over_the_rows() -> None:
    stacks = [0x7F00_0000_0000 + 0x80_1000 * number + 0x6C0 for number in range(1000)]
    rows = [code.row_of(pointer) for pointer in stacks]
    assert all(0 <= row < code.ROWS for row in rows)
    assert max(rows.count(row) for row in set(rows)) <= code.PLACES

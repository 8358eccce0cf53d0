# SPDX-License-Identifier: Apache-2.0
"""The example in the documentation is what the verb prints; its files are what they seem."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.files import lifedocs, lifefiles
from tests.support.files.elffiles import run


def test_the_page_shows_what_the_verb_prints(tmp_path: Path) -> None:
    assert lifedocs.block(lifedocs.PAGE.read_text()) == lifedocs.explained(tmp_path)


def test_the_picture_is_the_verbs(tmp_path: Path) -> None:
    assert lifedocs.PICTURE.read_text() == lifedocs.picture(tmp_path)


def test_objdump_shows_the_articles_instructions(tmp_path: Path) -> None:
    path = tmp_path / "ruby"
    path.write_bytes(lifefiles.elf())
    said = " ".join(run("objdump", "-dw", path).split())
    assert "40f3d0: ff 25 fa 91 2c 00 jmp *0x2c91fa(%rip) # 6d85d0 <malloc@GLIBC_2.2.5>" in said
    assert "40f3d6: 68 2f 00 00 00 push $0x2f" in said
    assert "40f3db: e9 f0 fc ff ff jmp 40f0d0" in said


def test_the_page_has_the_articles_addresses() -> None:
    text = lifedocs.block(lifedocs.PAGE.read_text())
    for word in (
        *("0x40f3d0", "jmp *0x2c91fa(%rip)  # 0x6d85d0", "push $0x2f", "jmp 0x40f0d0"),
        *("0x10008c504", "call 0x10009ebbc", "jmp *0x3ae46(%rip)  # 0x1000d9a08"),
        *("0x1000a08d4", "push $0x3b73", "jmp 0x10009ed8a"),
    ):
        assert re.search(re.escape(word) + r"\b", text) or word in text

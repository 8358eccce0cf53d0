# SPDX-License-Identifier: Apache-2.0
"""`soscope mem flame`: frames are as wide as the bytes that the program itself accounts for."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.machines.pythons import few_pythons
from tests.support.targets.accounts import built
from tests.support.targets.survivors import soscope

SVG = "{http://www.w3.org/2000/svg}"
ROOM = 1180

BLOCKS = """
static void *__attribute__((noinline)) keep(int size)
{
    void *volatile block = malloc(size);
    return block;
}
static void *volatile kept[300];
static void __attribute__((noinline)) much(void)
{
    for (int i = 0; i < 75; i++)
        kept[i] = keep(8000);
}
static void __attribute__((noinline)) little(void) { kept[100] = keep(200000); }
static void __attribute__((noinline)) tiny(void) { kept[101] = keep(1); kept[102] = keep(2); }
int main(void)
{
    much();
    little();
    tiny();
    return 0;
}"""

OBJECTS = """
class Kept:
    __slots__ = ()
kept = [Kept() for _ in range(5000)]
large = bytes(2_000_000)
"""


def frames(file: Path) -> dict[str, tuple[float, str]]:
    """Return the width of each frame, as a share of the picture, and its tooltip by its label."""
    tree = ET.parse(file)
    frames = {}
    for group in tree.iter(f"{SVG}g"):
        if group.get("class") == "f":
            title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
            assert title is not None
            assert title.text is not None
            assert rect is not None
            label = title.text.splitlines()[0]
            frames[label] = (float(rect.get("width", "0")) + 0.5) / ROOM, title.text
    return frames


def drawn(tmp_path: Path, *words: str | Path, name: str = "run.svg") -> Path:
    """Record a command and draw it."""
    recording, file = tmp_path / "run.sosr", tmp_path / name
    assert soscope("mem", "run", "-o", recording, *words).returncode == 0
    done = soscope("mem", "flame", "-o", file, recording)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return file


def test_blocks_stand_by_stack(tmp_path: Path) -> None:
    file = drawn(tmp_path, "--blocks", "--", built("flame.c", BLOCKS))
    seen = frames(file)
    for name, share, blocks in (("much", 0.75, 75), ("little", 0.25, 1)):
        width, text = seen[name]
        assert width == pytest.approx(share, abs=0.01)
        assert f" in {blocks} block" in text
        assert re.search(r"^/.*/flame\.c:\d+$", text, re.MULTILINE)
    assert "585.9 KiB (75.0 %) in 75 blocks" in seen["much"][1]
    assert "tiny" not in seen
    assert re.search(r"\d+ frames of \d+ B are too narrow to be seen", file.read_text())


@pytest.mark.parametrize("name", ["run.svg", "run.HTML"])
def test_objects_stand_by_file_line_and_type(name: str, tmp_path: Path) -> None:
    program = tmp_path / "<program> & co.py"
    program.write_text(OBJECTS)
    file = drawn(tmp_path, "--", few_pythons()[0], program, name=name)
    text = file.read_text()
    known = r"http://www\.w3\.org/2000/svg|http-equiv=|https\.py"
    assert "http" not in re.sub(known, "", text)
    assert ("<script>" in text) == (name != "run.svg")
    if name != "run.svg":
        policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
        assert policy[0].startswith("default-src 'none'; ")  # the page loads nothing
        start, end = text.index("<svg "), text.index("</svg>") + len("</svg>")
        file.write_text(text[start:end])
    seen = frames(file)
    width, said = seen[str(program)]
    assert width > 0.9
    assert width == pytest.approx(seen["all objects"][0], abs=0.1)
    assert "objects" in said
    assert "in 5,000 objects" in seen["Kept"][1]
    assert f"{program}:4" in seen["Kept"][1]
    assert seen["bytes"][0] > 0.8


def test_both_have_a_graph_of_their_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(OBJECTS)
    file = drawn(tmp_path, "--objects", "--blocks", "--", few_pythons()[0], program)
    assert {"all objects", "all blocks and mappings"} <= frames(file).keys()


def test_nothing_is_a_picture_too(tmp_path: Path) -> None:
    file = drawn(tmp_path, "--blocks", "--", built("none.c", "int main(void) { return 0; }"))
    assert frames(file) == {}
    assert "blocks: 0 of 0 B" in file.read_text()


def test_wrong_input_is_said(tmp_path: Path) -> None:
    recording, text = tmp_path / "run.sosr", tmp_path / "text"
    assert soscope("mem", "run", "--blocks", "-o", recording, "--", "true").returncode == 0
    text.write_text("no recording")
    good = tmp_path / "run.svg"
    for words, status in (
        (("-o", good, text), 1),
        (("-o", good, tmp_path / "missing"), 1),
        (("-o", tmp_path / "nowhere" / "run.svg", recording), 1),
        (("-o", tmp_path / "run.png", recording), 2),
        (("-o", tmp_path / "svg", recording), 2),
        ((recording,), 2),
        (("-o", good), 2),
    ):
        done = soscope("mem", "flame", *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith("soscope: error: ")
        assert status == 2 or done.stderr.count("\n") == 1
    assert not good.exists()
    recording.rename(good)
    assert soscope("mem", "flame", "-o", good, good).returncode == 2
    assert good.read_bytes()[:4] == b"SOSR"


def test_a_recording_that_was_cut_is_drawn_and_that_is_said(tmp_path: Path) -> None:
    drawn(tmp_path, "--blocks", "--", built("flame.c", BLOCKS))
    recording, file = tmp_path / "run.sosr", tmp_path / "cut.svg"
    recording.write_bytes(recording.read_bytes()[: recording.stat().st_size * 9 // 10])
    assert soscope("mem", "flame", "-o", file, recording).returncode == 1
    assert "the recording is not complete (cut)" in file.read_text()

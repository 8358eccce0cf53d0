# SPDX-License-Identifier: Apache-2.0
"""How the life of a call is shown: side by side, and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from soscope.verbs.main import main
from tests.support.files.explaining import made
from tests.support.macho import machomade


def test_two_files_stand_side_by_side(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lazy, now = made(tmp_path, "lazy"), made(tmp_path, "now")
    assert main(["explain", str(lazy), "malloc", str(now), "--width", "120"]) == 0
    lines = capfd.readouterr().out.splitlines()
    rule = next(line for line in lines if line.startswith("─"))
    middle = rule.index("┼")
    assert {line[middle] for line in lines} == {"│", "┼"}
    assert max(map(len, lines)) <= 120
    left = "\n".join(line[:middle] for line in lines)
    right = "\n".join(line[middle + 1 :] for line in lines)
    assert "PLT0" in left
    assert "no PLT0" in right
    assert "not lazy in this file: bound when the image is loaded" in right
    assert main(["explain", str(lazy), "malloc", str(now), "--width", "90"]) == 0
    below = capfd.readouterr().out
    assert "│" not in below
    assert below.count("call site") == 2
    assert max(map(len, below.splitlines())) <= 90


def overlapping(picture: Path) -> list[str]:
    """Return what lies upon something else in a picture, or goes out of its card."""
    root = ET.parse(picture).getroot()
    name = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [
        tuple(float(one.attrib[key]) for key in ("x", "y", "width", "height"))
        for one in root.iter(f"{name}rect")
        if one.attrib.get("fill") == "#ffffff"
    ]
    wrong = []
    for index, (x, y, wide, tall) in enumerate(boxes):
        if not (0 <= x < x + wide <= width and 0 <= y < y + tall <= height):
            wrong.append(f"{boxes[index]} is outside")
        wrong += [
            f"{boxes[index]} and {(other_x, other_y, other_wide, other_tall)}"
            for other_x, other_y, other_wide, other_tall in boxes[:index]
            if x < other_x + other_wide
            and other_x < x + wide
            and y < other_y + other_tall
            and other_y < y + tall
        ]
    for one in root.iter(f"{name}text"):
        size, text = float(one.attrib["font-size"]), one.text or ""
        letter = 0.605 if "Mono" in one.attrib.get("font-family", "") else 0.5
        letter += 0.07 if "font-weight" in one.attrib else 0
        start, line = float(one.attrib["x"]), float(one.attrib["y"])
        if one.attrib.get("text-anchor") is not None:
            continue
        room = [
            x + wide for x, y, wide, tall in boxes if x < start < x + wide and y < line < y + tall
        ]
        if start + len(text) * size * letter > min(room, default=width):
            wrong.append(text)
    assert len(boxes) >= 4
    return wrong


def test_no_line_of_one_column_is_too_long(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    image = machomade.made("info-arm64-dylib")
    (tmp_path / "a").write_bytes(image.data)
    assert main(["explain", "--width", "40", "--", str(tmp_path / "a"), "_malloc"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [one for one in lines if len(one) > 40 and " " in one.strip()] == []


@pytest.mark.parametrize("builds", [("lazy",), ("lazy", "no-plt"), ("no-plt",), ("now", "ibt")])
def test_nothing_in_the_picture_lies_upon_another(tmp_path: Path, builds: tuple[str, ...]) -> None:
    files = [str(made(tmp_path, one)) for one in builds]
    picture = tmp_path / "picture.svg"
    assert main(["explain", files[0], "malloc", *files[1:], "--svg", str(picture)]) == 0
    assert overlapping(picture) == []


@pytest.mark.parametrize(
    "name", ["info-arm64-dylib", "classic-i386-pic-dylib", "chained-x86_64-6-1"]
)
def test_long_names_are_shortened_in_the_picture(tmp_path: Path, name: str) -> None:
    image = machomade.made(name)
    symbol = max((one.symbol for one in image.rows if one.stub is not None), key=len)
    assert len(symbol) > 100
    (tmp_path / "image").write_bytes(image.data)
    picture = tmp_path / "picture.svg"
    assert main(["explain", "--svg", str(picture), "--", str(tmp_path / "image"), symbol]) == 0
    assert overlapping(picture) == []
    assert symbol not in picture.read_text()

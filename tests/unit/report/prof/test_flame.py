# SPDX-License-Identifier: Apache-2.0
"""Pictures of profiles: frames are as wide as the parts that were put in."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from soscope.instruments.prof.model import ProfFunction, Profile
from soscope.report.flame import ROOM
from soscope.report.proftree import flame_document, page
from tests.support.files.profshapes import Shape, Way

SVG = "{http://www.w3.org/2000/svg}"
WAYS: list[Way] = [
    (("app!main",), 1, 100_000),
    (("app!main", "a"), 2, 300_000),
    (("app!main", "a", "b"), 10, 500_000),
    (("app!main", "c"), 1, 100_000),
]


def frames(text: str) -> dict[str, tuple[float, list[str]]]:
    """Return each frame's part of the width, and its tooltip, by its name."""
    drawn = {}
    for group in ET.fromstring(text).iter(f"{SVG}g"):
        if group.get("class") == "f":
            title, rect = group.findtext(f"{SVG}title"), group.find(f"{SVG}rect")
            assert title is not None
            assert rect is not None
            name, *said = title.splitlines()
            assert name not in drawn
            drawn[name] = round((float(rect.get("width", "0")) + 0.5) / ROOM, 3), said
    return drawn


def test_a_caller_that_nobody_counted_has_no_number_of_calls() -> None:
    shape = Shape()
    shape.ways([(("app!main",), 0, 0), (("app!main", "a"), 2, 300_000)])
    drawn = frames(flame_document(shape.profile))
    assert drawn["main"][1] == ["in app", "300.000 µs (100.0 %)"]
    assert drawn["a"][1] == ["in lib.so", "300.000 µs (100.0 %) in 2 calls"]


def test_ways_are_as_wide_as_they_took_long() -> None:
    shape = Shape()
    shape.ways(WAYS)
    drawn = frames(flame_document(shape.profile))
    assert {name: width for name, (width, _) in drawn.items()} == {
        "all calls": 1, "main": 1, "a": 0.8, "b": 0.5, "c": 0.1,
    }  # fmt: skip
    assert drawn["a"][1] == ["in lib.so", "800.000 µs (80.0 %) in 2 calls"]
    assert "14 calls of 1.000 ms; the wider a frame, the longer it took" in flame_document(
        shape.profile
    )


def test_nothing_reaches_out_of_what_it_is_inside_of() -> None:
    shape = Shape()
    shape.ways(WAYS)
    shape.profile.nodes[0].total_ns = 700_000  # less than what it calls: times were corrected
    assert frames(flame_document(shape.profile))["main"][0] == 1


def test_counts_are_as_wide_as_calls() -> None:
    shape = Shape()
    shape.ways(WAYS, timed=False)
    drawn = frames(flame_document(shape.profile))
    assert drawn["a"] == (
        0.857,
        ["in lib.so", "12 calls, with those inside (85.7 %) in 2 calls"],
    )
    assert "the wider a frame, the more calls" in flame_document(shape.profile)


def test_single_calls_have_two_levels_and_samples_a_graph_of_their_own() -> None:
    shape = Shape()
    shape.arc("app!", "libc.so.6!read", 2, 900, 600)
    shape.arc("app!?", "libc.so.6!write", 2, 400, 400)
    shape.profile.functions[2] = ProfFunction("app", "?", 0x1230, 8)
    shape.sample("app!run", "/srv/app.py:3:go", weight=3)
    shape.sample("app!run")
    text = flame_document(shape.profile)
    drawn = frames(text)
    assert {name: width for name, (width, _) in drawn.items()} == {
        "all calls": 1, "app (any)": 0.6, "app 0x1230": 0.4, "read": 0.6, "write": 0.4,
        "all samples": 1, "run": 1, "go": 0.75,
    }  # fmt: skip
    assert drawn["go"][1] == ["in app.py", "/srv/app.py:3", "3.000 ms (75.0 %) in 3 samples"]
    assert "the callers are known, and not the ways to them" in text


def test_threads_can_stand_apart() -> None:
    shape = Shape()
    shape.ways(WAYS)
    shape.ways([(("app!start",), 1, 250_000)], thread=shape.thread(11, "worker"))
    drawn = frames(flame_document(shape.profile, threads=True))
    assert drawn["thread 10 of process 10 (main)"][0] == drawn["main"][0] == 0.8
    assert drawn["thread 11 of process 10 (worker)"][0] == drawn["start"][0] == 0.2


def test_two_functions_of_one_name_are_drawn_as_one() -> None:
    shape = Shape()
    shape.ways([(("app!main",), 1, 0), (("app!main", "f"), 1, 30), (("app!main", "g"), 1, 70)])
    shape.profile.functions[2].symbol = "f"
    assert frames(flame_document(shape.profile))["f"][1][1] == "100 ns (100.0 %) in 2 calls"


@pytest.mark.parametrize("make", [flame_document, page])
def test_strange_names_are_harmless_and_nothing_is_loaded(make: Callable[[Profile], str]) -> None:
    strange = "<b>&\"'\x07\udcff]]></script><!--"
    shape = Shape()
    shape.ways([((strange,), 1, 10)])
    shape.profile.command = [strange]
    shape.profile.notes = [strange]
    text = make(shape.profile)
    assert text.count("</script>") == (make is page)
    assert not re.search(r"https?:", text.replace("http://www.w3.org/2000/svg", ""))
    start, end = text.index("<svg "), text.index("</svg>") + len("</svg>")
    assert len(frames(text[start:end])) == 2


def test_nothing_is_a_picture_too() -> None:
    assert frames(flame_document(Shape().profile)) == {}

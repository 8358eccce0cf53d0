# SPDX-License-Identifier: Apache-2.0
"""What a sweep makes of ends, how it names sites, and how it shows them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from soscope.errors import UsageError
from soscope.instruments.inject.sweep.result import (
    CommandEnd,
    RunEnd,
    SeenSite,
    Site,
    SiteResult,
    SweepResult,
    kind_of,
    named,
    shell_words,
)
from soscope.instruments.inject.sweep.sweep import Sweep, SweepSettings
from soscope.report.inject import document, notes, text
from soscope.report.output import JSON, Form
from tests.support.machines.tools import need
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.sweep import SWEEP
from tests.support.time.patience import limit

FINE, FAILED, KILLED = CommandEnd(0, None), CommandEnd(1, None), CommandEnd(None, 11)


@pytest.mark.parametrize(
    ("end", "injected", "is_late", "is_same", "kind"),
    [
        (FINE, 1, False, True, "none"),
        (FINE, 2, False, None, "none"),
        (FINE, 1, False, False, "wrong"),
        (FAILED, 1, False, False, "error"),
        (KILLED, 1, False, True, "crash"),
        (KILLED, 1, True, False, "hang"),
        (CommandEnd(None, None), None, True, None, "hang"),
        (FINE, 0, False, True, "moved"),
        (KILLED, 0, False, True, "moved"),
        (KILLED, 0, True, False, "moved"),
    ],
)
def test_kinds(
    end: CommandEnd, injected: int | None, is_late: bool, is_same: bool | None, kind: str
) -> None:
    run = RunEnd(end)
    run.injected, run.is_late, run.is_same = injected, is_late, is_same
    assert kind_of(run, [FINE, FINE]) == kind


def test_an_end_that_is_one_of_two_is_that_without_injection() -> None:
    run = RunEnd(KILLED)
    run.injected = 1
    assert kind_of(run, [FINE, KILLED]) == "none"


def test_images_of_one_name_become_paths() -> None:
    seen = [
        SeenSite("malloc", "libx.so", "/a/libx.so", 16),
        SeenSite("malloc", "libx.so", "/b/libx.so", 16),
        SeenSite("malloc", "liby.so", "/b/liby.so", 16),
    ]
    first, second = named([seen[:2], seen[1:]])
    assert {site.image for site in first} == {"/a/libx.so", "/b/libx.so"}
    assert {site.image for site in first & second} == {"/b/libx.so"}
    assert second - first == {Site("malloc", "liby.so", 16)}


@pytest.mark.parametrize("image", ["libx.so", "lib[x]*?.so", "a:b,c.so", "libstdc++.so.6", "a\\b"])
def test_a_rule_is_about_its_site(image: str) -> None:
    rule = Site("malloc", image, 0x1234).parsed()
    assert rule.site is not None
    pattern, vaddr = rule.site
    assert vaddr == 0x1234
    assert (rule.first, rule.last, rule.is_fault) == (1, 1, True)
    from soscope.select.filter import compile_pattern

    assert compile_pattern(pattern).matches(image.encode())


def result() -> SweepResult:
    made = SweepResult(["my prog", "a'b"], ["malloc", "open*"], follow=True)
    made.baseline = FINE
    made.sites, made.timeout = 3, 5.0
    made.results = [
        SiteResult(Site("malloc", "libx.so", 16), "crash", KILLED, ["libx.so!f+0x1"]),
        SiteResult(Site("open", "libx.so", 32), "hang", CommandEnd(None, None), []),
        SiteResult(Site("open64", "liby.so", 48), "none", FINE, []),
    ]
    return made


def test_the_document_keeps_its_promise() -> None:
    said = json.loads(document(result(), Form(JSON)))
    assert wrong_members(said, SWEEP) == []
    assert said["sites"][0]["signal"] == "SIGSEGV"
    assert shlex.split(said["sites"][0]["repeat"]) == [
        *("soscope", "inject", "-e", "fault=malloc:site=libx.so+0x10:when=1", "-f", "--"),
        *("my prog", "a'b"),
    ]
    assert said["totals"] == {
        "sites": 3,
        "none": 1,
        "error": 0,
        "crash": 1,
        "hang": 1,
        "wrong": 0,
        "moved": 0,
    }


@pytest.mark.parametrize("word", ["a b", "it's", "a\nb'c\\d\x01", "\udcff7", "ä\t", "$HOME", ""])
def test_a_shell_takes_the_words_back(word: str) -> None:
    said = shell_words(["printf", "%s", word])
    assert said.isprintable()
    done = subprocess.run(
        [need("bash"), "-c", said], capture_output=True, check=True, timeout=limit()
    )
    assert os.fsdecode(done.stdout) == word


def test_the_text_shows_what_came_of_it() -> None:
    shown = text(result(), every=False)
    assert "crash  SIGSEGV  malloc at libx.so+0x10\n         libx.so!f+0x1\n" in shown
    assert "hang   after 5 s  open at libx.so+0x20\n" in shown
    assert "open64" not in shown
    assert "none   open64 at liby.so+0x30\n" in text(result(), every=True)


def test_notes_say_what_is_missing() -> None:
    made = result()
    assert notes(made) == ["calls inside an image go through no slot, and are not tried"]
    made.is_cut, made.sites = True, 9
    made.failed = [(Site("malloc", "libz.so", 1), "no reason")]
    made.moved = [Site("malloc", "libz.so", number) for number in range(12)]
    said = notes(made)
    assert said[0] == "ended by a signal: 3 of 9 sites tried"
    assert "and 2 more sites" in said
    assert said[-1] == "malloc at libz.so+0x1 could not be tried: no reason"
    assert not made.is_deterministic


@pytest.mark.parametrize("function", ["nope", "nope*", "a b", "strtod"])
def test_what_has_no_rule_is_refused(function: str) -> None:
    with pytest.raises(UsageError, match=r"--sweep|no name"):
        Sweep(SweepSettings(["true"], [function]))

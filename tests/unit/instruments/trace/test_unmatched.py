# SPDX-License-Identifier: Apache-2.0
"""A word that matched nothing is named, with what the user may have meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from soscope.control.imports import imported_functions, which_define
from soscope.instruments.trace.outcome import explain_unmatched
from soscope.model.image import IMAGE_MAIN, TracedImage
from soscope.select.filter import compile_selection, near_misses
from tests.support.files.elffiles import built, nm

SHARED = ("-shared", "-fPIC")
BEHIND = "matches no caller: behind @ stands who calls"
SYMBOLS = ["malloc", "free", "add", "SSL_read", "SSL_write", "_Z5widthRKSs", "getaddrinfo"]


def image(index: int, name: str, flags: int = 0) -> TracedImage:
    """Make an image of this name."""
    return TracedImage(index, 0, name, f"/usr/lib/{name}", 0, 0, 0, b"", flags, 0, 0, 0, 1)


IMAGES = [image(0, "prog", IMAGE_MAIN), image(1, "libadd.so"), image(2, "ld-linux-x86-64.so.2")]


def explained(*select: str, from_: str = "", to: str = "") -> list[str]:
    """Explain a filter of which nothing matched."""
    selection = compile_selection(list(select), [from_] if from_ else [], [to] if to else [])
    return explain_unmatched(selection, [0] * len(selection.words), SYMBOLS, IMAGES)


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("mallok", "-e mallok matches no symbol; did you mean malloc?"),
        ("ssl_read", "-e ssl_read matches no symbol; did you mean SSL_read?"),
        ("SSL_reed*", "-e SSL_reed* matches no symbol; did you mean SSL_read, SSL_write?"),
        ("width", "-e width matches no symbol; did you mean _Z5widthRKSs?"),
        ("zzz", "-e zzz matches no symbol"),
        (
            "add@libadd.so",
            f"-e add@libadd.so {BEHIND}; did you mean -l libadd.so?",
        ),
        ("add@libad.so", "-e add@libad.so matches no caller; did you mean libadd.so?"),
        ("@libadd", "-e @libadd matches no caller; did you mean libadd.so?"),
        ("@add", "-e @add matches no caller; did you mean libadd.so?"),
        ("@ld-x", r"-e @ld matches no caller; did you mean ld\-linux\-x86\-64.so.2?"),
        ("-mallok", "-e -mallok excludes nothing; did you mean malloc?"),
    ],
)
def test_an_expression_that_matched_nothing_is_named(expression: str, line: str) -> None:
    assert explained(expression) == [line]


def test_images_that_matched_nothing_are_named() -> None:
    assert explained(from_="libadd", to="ld-linux") == [
        "--from libadd matches no caller; did you mean libadd.so?",
        "-l ld-linux matches no callee; did you mean ld-linux-x86-64.so.2?",
    ]
    assert explained(to="libadd.so") == [
        "-l libadd.so matches no callee: libadd.so has no such calls"
    ]


def test_a_library_that_is_in_libc_by_now_is_told() -> None:
    for name, told in (("libpthread.so.0", True), ("libm.so.6", False)):
        selection = compile_selection([], ["all"], [name])
        images = [*IMAGES, image(3, "libc.so.6")]
        (line,) = explain_unmatched(selection, [0] * len(selection.words), SYMBOLS, images)[:1]
        assert ("glibc 2.34 and newer has it in libc.so.6 (-l libc.so.6)" in line) == told


def test_a_function_that_nobody_calls_through_a_slot_is_told(tmp_path: Path) -> None:
    """It is in the image, for others or not: -x shows its calls."""
    text = "static __attribute__((noinline)) int inner(int n) { return n * 3; }"
    path = built(tmp_path, "libhas.so", text + "int outer(int n) { return inner(n); }", *SHARED)
    defined = {name for _, _, letter, name in nm(path) if letter in "tT"}
    assert {"inner", "outer"} <= defined
    images = [image(0, "prog", IMAGE_MAIN)]
    images.append(TracedImage(1, 0, "libhas.so", str(path), 0, 0, 0, b"", 0, 0, 0, 0, 1))
    for name, has in (("inner", True), ("outer", True), ("printf", False), ("in*", False)):
        (line,) = explain_unmatched(compile_selection([name]), [0], SYMBOLS, images)
        assert (f"; -x {name}@libhas.so shows its calls" in line) == has, line


def test_a_path_that_leads_to_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """The target says which files its images come from."""
    fifo = tmp_path / "libfifo.so"
    os.mkfifo(fifo)
    library = built(tmp_path, "libhas.so", "int puts(); int outer() { return puts(); }", *SHARED)
    assert which_define("outer", [str(fifo), str(library)]) == [str(library)]
    assert "puts" in imported_functions([str(fifo), str(library)])
    assert imported_functions([str(fifo)]) == set()


def test_what_matched_and_what_nobody_wrote_is_not_named() -> None:
    selection = compile_selection(["-__*+free+mallok"])
    assert explain_unmatched(selection, [9, 0, 1, 1], SYMBOLS, IMAGES) == []
    assert explain_unmatched(compile_selection([]), [0, 0], SYMBOLS, IMAGES) == []


def test_each_word_of_a_list_stands_for_itself() -> None:
    selection = compile_selection(["free,mallok"])
    assert explain_unmatched(selection, [1, 0], SYMBOLS, IMAGES) == [
        "-e mallok matches no symbol; did you mean malloc?"
    ]


def test_words_that_match_apart_but_not_together_are_said() -> None:
    selection = compile_selection(["add"], ["MAIN"])
    assert explain_unmatched(selection, [1, 1], SYMBOLS, IMAGES, hooked=0) == [
        "no call matches -e add with --from MAIN"
    ]
    assert explain_unmatched(selection, [1, 1], SYMBOLS, IMAGES, hooked=2) == []


def test_without_names_nothing_is_guessed() -> None:
    selection = compile_selection(["malloc"])
    assert explain_unmatched(selection, [0], [], []) == ["-e malloc matches no symbol"]


def test_a_single_letter_is_like_nothing() -> None:
    assert near_misses("a", SYMBOLS) == []


def test_names_that_headers_make_of_one_are_near_to_it() -> None:
    names = ["scandir", "__isoc99_sscanf", "__isoc99_vsscanf", "__printf_chk"]
    assert near_misses("sscanf", names)[0] == "__isoc99_sscanf"
    assert near_misses("printf", names) == ["__printf_chk"]

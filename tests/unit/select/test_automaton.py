# SPDX-License-Identifier: Apache-2.0
"""Patterns become automata that accept what the pattern languages say, and nothing else."""

from __future__ import annotations

import ctypes
import fnmatch
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.errors import UsageError
from soscope.select.patterns import Automaton, compile_bre, compile_glob, pack_patterns

NAMES = st.text(alphabet="abc_*]|.", max_size=7)


def accepts(pattern: Automaton, *names: str) -> list[bool]:
    """Say which names match."""
    return [pattern.matches(name.encode()) for name in names]


GLOB_TOKENS = ["a", "b", "c", "_", ".", "*", "?", "[ab]", "[!a]", "[a-c]", "[]a]", "[!]a]", "|"]


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(GLOB_TOKENS), max_size=8).map("".join),
    st.lists(NAMES, min_size=1, max_size=12),
)
def test_a_glob_means_what_fnmatch_says(glob: str, names: list[str]) -> None:
    expected = [fnmatch.fnmatchcase(name, glob) for name in names]
    assert accepts(compile_glob(glob), *names) == expected


@given(st.binary(max_size=30), st.data())
def test_a_glob_without_wildcards_is_one_name(name: bytes, data: st.DataObject) -> None:
    text = bytes(byte for byte in name if byte not in b"*?[\\")
    pattern = compile_glob(text.decode("utf-8", "surrogateescape"))
    cut = data.draw(st.integers(0, len(text)))
    others = {text[:cut], text[cut:], text + b"x", text[:cut] + b"x" + text[cut:]} - {text}
    assert pattern.matches(text)
    assert not any(map(pattern.matches, others))
    assert pattern.states == len(text) + 2


# The same expression as (POSIX basic, Python's).
Pair = tuple[str, str]
ATOMS: st.SearchStrategy[Pair] = st.sampled_from(
    [
        ("a", "a"),
        ("b", "b"),
        ("+", r"\+"),
        ("|", r"\|"),
        (r"\.", r"\."),
        (".", "."),
        ("[ab]", "[ab]"),
        ("[^a]", "[^a]"),
        ("[[:alpha:]]", "[a-zA-Z]"),
    ]
)
REPEATS = [("*", "*"), (r"\+", "+"), (r"\?", "?"), (r"\{1,2\}", "{1,2}"), (r"\{2\}", "{2}")]


def grow(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """Build larger expressions from smaller ones."""
    group = inner.map(lambda e: (rf"\({e[0]}\)", f"(?:{e[1]})"))
    joined = st.lists(group, min_size=1, max_size=3).map(
        lambda parts: ("".join(p[0] for p in parts), "".join(p[1] for p in parts))
    )
    either = st.tuples(inner, inner).map(
        lambda two: (rf"\({two[0][0]}\|{two[1][0]}\)", f"(?:{two[0][1]}|{two[1][1]})")
    )
    repeated = st.tuples(group, st.sampled_from(REPEATS)).map(
        lambda two: (two[0][0] + two[1][0], two[0][1] + two[1][1])
    )
    return joined | either | repeated


@settings(max_examples=300)
@given(
    st.recursive(ATOMS, grow, max_leaves=8),
    st.lists(st.text(alphabet="ab+|.", max_size=6), min_size=1, max_size=12),
)
def test_a_basic_expression_means_what_re_says(pair: Pair, names: list[str]) -> None:
    basic, extended = pair
    expected = [re.fullmatch(extended, name) is not None for name in names]
    assert accepts(compile_bre(basic), *names) == expected


BRE_TOKENS = (
    r"a b * . + ? | [ab] [^a] []a] \( \) \| \+ \? \{1,2\} \{0,\} ^ $ [[:alpha:]] \. \w".split()
)


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(BRE_TOKENS), max_size=8).map("".join),
    st.lists(st.text(alphabet="ab*+^$|", max_size=6), min_size=1, max_size=12),
)
def test_a_basic_expression_means_what_the_c_library_says(basic: str, names: list[str]) -> None:
    """What is special depends on its place: ask regcomp, which ltrace uses."""
    libc = ctypes.CDLL(None)
    compiled, wrapped = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
    no_captures = 8  # REG_NOSUB
    if libc.regcomp(compiled, basic.encode(), no_captures):
        return  # we are more lenient with repeated repetitions
    libc.regfree(compiled)
    assert not libc.regcomp(wrapped, rf"^\({basic}\)$".encode(), no_captures)
    expected = [libc.regexec(wrapped, name.encode(), 0, None, 0) == 0 for name in names]
    libc.regfree(wrapped)
    assert accepts(compile_bre(basic), *names) == expected


def test_an_expression_has_to_match_the_whole_name() -> None:
    assert accepts(compile_bre(r"malloc\|free"), "malloc", "free", "mallocs", "xfree") == [
        True,
        True,
        False,
        False,
    ]
    assert accepts(compile_bre("mal"), "malloc", "mal") == [False, True]
    assert accepts(compile_bre(r"^\(malloc\|free\)$"), "malloc", "freed") == [True, False]


def test_an_anchor_in_the_wrong_place_matches_nothing() -> None:
    assert accepts(compile_bre(r"a\(^b\)"), "ab", "a^b") == [False, False]
    assert accepts(compile_bre("a^b$c"), "a^b$c") == [True]


def test_a_backslash_takes_the_magic_out_of_a_glob() -> None:
    assert accepts(compile_glob(r"a\*"), "a*", "ab") == [True, False]


def test_a_character_outside_ascii_is_its_bytes() -> None:
    assert accepts(compile_glob("é*"), "épée", "e") == [True, False]
    assert compile_glob("??").matches("é".encode())


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\(a\)\1", "back-reference"),
        (r"\(a", "without"),
        (r"a\)", "without"),
        ("[a", "without"),
        ("[z-a]", "backwards"),
        ("[[:alfa:]]", "unknown class"),
        (r"a\{2,1\}", "below"),
        (r"a\{x\}", "numbers"),
        (r"a\{1", "without"),
        (r"a\{999\}", "255"),
        (r"\{2\}", "nothing to repeat"),
        ("a\\", "backslash"),
        (r"\bword", "not supported"),
        (r"\(" * 60 + r"\)" * 60, "nested"),
        ("a" + "*" * 200, "repetitions"),
    ],
)
def test_a_faulty_expression_is_a_usage_error(pattern: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        compile_bre(pattern)


def test_a_glob_with_an_open_bracket_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="without"):
        compile_glob("mal[loc")


@pytest.mark.parametrize(
    "pattern",
    [r".*a.\{20\}", r"\(\(a\{255\}\)\{255\}\)\{255\}", r"\(\(a\?\)\{0,40\}\)\{0,40\}"],
)
def test_a_pattern_that_explodes_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="too complex"):
        compile_bre(pattern)


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("malloc", 8),
        ("open*", 6),
        ("*", 2),
        ("*foo*", 5),
        (r"\(a\|b\)", 3),
        ("a*b*", 4),
        ("a**", 3),
    ],
)
def test_the_automaton_is_minimal(pattern: str, states: int) -> None:
    """States: a dead one, and one for each different rest that can still be accepted."""
    compiled = compile_bre(pattern) if "\\" in pattern else compile_glob(pattern)
    assert compiled.states == states


def test_the_packed_form_is_what_wire_h_says() -> None:
    """Run the packed tables with the offsets of struct sosc_automaton."""
    data = pack_patterns([compile_glob("free"), compile_glob("mal[kl]oc*")])
    count, first, second = struct.unpack_from("<3I", data)
    assert (count, first) == (2, 12)
    assert second % 4 == 0
    states, classes, accept, table = struct.unpack_from("<HHII", data, second)
    assert table % 2 == 0

    def matches(name: bytes) -> bool:
        state = 1
        for byte in name:
            column = data[second + 12 + byte]
            assert column < classes
            at = second + table + 2 * (state * classes + column)
            (state,) = struct.unpack_from("<H", data, at)
            assert state < states
        accepting: int = data[second + accept + state]
        return accepting == 1

    assert [matches(name) for name in (b"malloc", b"malkocate", b"free", b"", b"malxoc")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_no_pattern_at_all_packs_to_a_count_of_zero() -> None:
    assert pack_patterns([]) == bytes(4)


@pytest.mark.parametrize(
    "glob",
    [r"[a\]]", r"[\]a]", r"[a\-c]", r"[\a-c]", r"[!\]]", r"[a\\]", r"x[[:alpha:]\]]", r"[\^a]"],
)
def test_a_backslash_in_brackets_means_what_the_c_library_says(glob: str) -> None:
    fnmatch_c = ctypes.CDLL(None).fnmatch
    compiled = compile_glob(glob)
    texts = [bytes((byte,)) for byte in range(1, 128)]
    for text in [*texts, *(b"x" + one for one in texts), b"[a]", b"a]", rb"[a\]"]:
        assert compiled.matches(text) == (fnmatch_c(glob.encode(), text, 0) == 0), text


@pytest.mark.parametrize("glob", [r"[a\]", "[a\\", "[\\"])
def test_a_bracket_that_a_backslash_keeps_open_is_refused(glob: str) -> None:
    with pytest.raises(UsageError, match="without"):
        compile_glob(glob)

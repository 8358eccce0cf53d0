# SPDX-License-Identifier: Apache-2.0
"""Which slots -e, --from and --to choose, and how the rules are packed."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.select.filter import Selection, chooses, compile_selection
from soscope.wire import layout

# The calls of a little program: symbol, caller, callee.
CALLS = [
    ("malloc", "prog", "libc.so.6"),
    ("free", "prog", "libc.so.6"),
    ("add", "prog", "libadd.so"),
    ("malloc", "libadd.so", "libc.so.6"),
    ("add", "libmiddle.so", "libadd.so"),
    ("free", "libc.so.6", "ld-linux-x86-64.so.2"),
]


def chosen(selection: Selection) -> list[str]:
    """List the calls that a filter chooses, as symbol@caller."""
    return [
        f"{symbol}@{caller}"
        for symbol, caller, callee in CALLS
        if chooses(
            selection,
            symbol,
            caller=caller,
            callee=callee,
            caller_path=f"/usr/lib/{caller}",
            callee_path=f"/usr/lib/{callee}",
            caller_is_main=caller == "prog",
            callee_is_main=callee == "prog",
        )
    ]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (["malloc"], "malloc@prog malloc@libadd.so"),
        (["add@libadd.so"], ""),
        (["add@MAIN"], "add@prog"),
        (["add@/libmiddle.*/"], "add@libmiddle.so"),
        (["add@libmiddle*"], "add@libmiddle.so"),
        (["/malloc\\|free/"], "malloc@prog free@prog malloc@libadd.so free@libc.so.6"),
        (["/mal/"], ""),
        (["/^malloc$/@MAIN"], "malloc@prog"),
        (["malloc+free@libc.so*-@MAIN"], "malloc@libadd.so free@libc.so.6"),
        (["malloc+free-@libc.so*"], "malloc@prog free@prog malloc@libadd.so"),
        (["-malloc"], "free@prog add@prog add@libmiddle.so free@libc.so.6"),
        (["@prog-a*"], "malloc@prog free@prog"),
        (["-malloc+malloc"], " ".join(f"{symbol}@{caller}" for symbol, caller, _ in CALLS)),
        (["add", "free@MAIN"], "free@prog add@prog add@libmiddle.so"),
        (["@prog-a*", "add"], "malloc@prog free@prog add@prog add@libmiddle.so"),
        (["@/usr/lib/libm*"], "add@libmiddle.so"),
        (["@/lib/libm*"], ""),
        (["@[M]AIN"], ""),
        (["@^prog$"], "malloc@prog free@prog add@prog"),
        (["^malloc$"], "malloc@prog malloc@libadd.so"),
        (["^mal*"], "malloc@prog malloc@libadd.so"),
        (["*oc$@^libadd*"], "malloc@libadd.so"),
        (["malloc\\$"], ""),
        (["malloc,free@MAIN"], "malloc@prog free@prog malloc@libadd.so"),
    ],
)
def test_e_means_what_ltrace_means(select: list[str], expected: str) -> None:
    assert " ".join(chosen(compile_selection(select))) == expected


@pytest.mark.parametrize(
    ("select", "from_", "to", "expected"),
    [
        ([], [], [], "malloc@prog free@prog add@prog"),
        ([], ["MAIN"], [], "malloc@prog free@prog add@prog"),
        ([], ["libm*", "libc.so.6"], [], "add@libmiddle.so free@libc.so.6"),
        ([], ["libm*,libc.so.6"], [], "add@libmiddle.so free@libc.so.6"),
        ([], ["/usr/lib/libm*"], [], "add@libmiddle.so"),
        ([], ["/libm.*/"], [], "add@libmiddle.so"),
        ([], [], ["libadd*"], "add@prog add@libmiddle.so"),
        ([], ["MAIN"], ["libadd*"], "add@prog"),
        (["malloc"], ["MAIN"], [], "malloc@prog"),
        (["free"], [], ["ld-linux*"], "free@libc.so.6"),
        (["free"], ["all"], ["all"], "free@prog free@libc.so.6"),
        (["free"], [], ["MAIN"], ""),
    ],
)
def test_from_names_callers_and_to_callees(
    select: list[str], from_: list[str], to: list[str], expected: str
) -> None:
    assert " ".join(chosen(compile_selection(select, from_, to))) == expected


def test_all_is_every_call() -> None:
    assert len(chosen(compile_selection([], ["all"]))) == len(CALLS)


def test_a_line_names_the_caller_only_if_a_filter_is_given() -> None:
    assert not compile_selection([]).names_caller
    assert compile_selection(["malloc"]).names_caller
    assert compile_selection([], ["MAIN"]).names_caller
    assert compile_selection([], [], ["libc.so.6"]).names_caller
    assert compile_selection([], ["all"]).by_image
    assert not compile_selection(["malloc"]).by_image


def test_a_faulty_pattern_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="without"):
        compile_selection(["mal[oc"])


def test_a_pattern_is_compiled_once() -> None:
    selection = compile_selection(["free@libx,free,foo"], ["free", "foo"])
    compiled = [pattern.pattern for pattern in selection.patterns]
    assert compiled == ["libx", "free", "foo", "free", "foo"]  # of functions, then of images


def test_the_rules_are_packed_as_wire_h_says() -> None:
    selection = compile_selection(["-a", "b@/usr/x"], ["MAIN"], ["libc*"])
    size = layout.RULE.size
    unpacked = [
        layout.RULE.struct.unpack_from(selection.rules, at)
        for at in range(0, len(selection.rules), size)
    ]
    any_, main = layout.PATTERN_ANY, layout.PATTERN_MAIN
    assert unpacked == [
        (layout.RULE_INCLUDE, layout.RULE_FIRST, any_, any_, 0),
        (layout.RULE_EXCLUDE, 0, 0, any_, 0),
        (layout.RULE_INCLUDE, layout.RULE_FIRST | layout.RULE_PATH, 2, 1, 0),
        (layout.RULE_FROM, 0, any_, main, 0),
        (layout.RULE_TO, 0, any_, 3, 0),
    ]
    assert len(selection.words) == len(unpacked)

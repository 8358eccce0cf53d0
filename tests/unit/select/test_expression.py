# SPDX-License-Identifier: Apache-2.0
"""ltrace's filter expressions are split into the rules that ltrace(1) describes."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.select.filter import Pattern, parse, split_commas


def written(pattern: Pattern) -> str:
    """Show a pattern with the slashes of a regular expression."""
    return f"/{pattern.text}/" if pattern.is_regex else pattern.text


def rules(expression: str) -> list[str]:
    """Show the rules as sign, symbol and caller."""
    return [
        f"{'+' if rule.include else '-'}{written(rule.symbol)} {written(rule.caller)}"
        for rule in parse(expression)
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("malloc", ["+malloc *"]),
        ("+malloc", ["+malloc *"]),
        ("@libc.*", ["+* libc.*"]),
        ("@", ["+* *"]),
        ("malloc@", ["+malloc *"]),
        ("malloc+free-@libc.so*", ["+malloc *", "+free *", "-* libc.so*"]),
        ("malloc+free@libc.so*-@MAIN", ["+malloc *", "+free libc.so*", "-* MAIN"]),
        ("-malloc", ["+* *", "-malloc *"]),
        ("@-malloc", ["+* *", "-malloc *"]),
        ("@prog-add*-f*", ["+* prog", "-add* *", "-f* *"]),
        ("open*,read,close", ["+open* *", "+read *", "+close *"]),
        ("malloc,-free", ["+malloc *", "-free *"]),
        (r"/malloc\|free/", [r"+/malloc\|free/ *"]),
        (r"/a\+b/", [r"+/a\+b/ *"]),
        ("/a,b/,c", ["+/a,b/ *", "+c *"]),
        ("/x@y/", ["+/x/ /y/"]),
        ("/x/@/y/", ["+/x/ /y/"]),
        ("/x/@/y/-free", ["+/x/ /y/", "-free *"]),
        ("/x@/", ["+/x/ *"]),
        ("/@y/", ["+* /y/"]),
        ("add@/libmiddle.*/", ["+add /libmiddle.*/"]),
        (r"/a\/b/", [r"+/a\/b/ *"]),
        ("/[/@]/@x", ["+/[/@]/ x"]),
        ("mal[a-z+,]oc", ["+mal[a-z+,]oc *"]),
        ("[[:alpha:]-]x", ["+[[:alpha:]-]x *"]),
        (r"@libstdc\+\+*", [r"+* libstdc\+\+*"]),
        ("@/usr/lib/x86_64-linux-gnu/libc.so.6", ["+* /usr/lib/x86_64-linux-gnu/libc.so.6"]),
        (
            "-malloc+@/lib/libc.so.6-*+/mem.*/@libc*",
            ["+* *", "-malloc *", "+* /lib/libc.so.6", "-* *", "+/mem.*/ libc*"],
        ),
        (r"[a\]+]@x+y", [r"+[a\]+] x", "+y *"]),
        ("@/opt/c-x/lib.so-free", ["+* /opt/c-x/lib.so", "-free *"]),
        ("a@/lib/a.so+/b.*/", ["+a /lib/a.so", "+/b.*/ *"]),
        ("@ld-linux.so.2", ["+* ld", "-linux.so.2 *"]),
        ("^MAIN", ["+^MAIN *"]),
    ],
)
def test_an_expression_is_split_as_ltrace_does(expression: str, expected: list[str]) -> None:
    assert rules(expression) == expected


@pytest.mark.parametrize("expression", ["", "+", "-", "a++b", "@libstdc++*", "a,", ",a", "a-,b"])
def test_a_rule_without_a_pattern_is_a_usage_error(expression: str) -> None:
    """In ltrace it would stand for everything, which nobody means."""
    with pytest.raises(UsageError, match="without a pattern"):
        parse(expression)


@pytest.mark.parametrize("expression", ["/malloc", "/", r"/a\/", "/a/b", "/a/b@c"])
def test_a_torn_regular_expression_is_a_usage_error(expression: str) -> None:
    with pytest.raises(UsageError, match="regular expression"):
        parse(expression)


def test_the_word_of_a_rule_is_what_the_user_wrote() -> None:
    words = [rule.word for rule in parse("-malloc+free,/a@b/-x@y")]
    assert words == ["", "-malloc", "free", "/a@b/", "-x@y"]


def test_images_are_split_at_commas_alone() -> None:
    assert split_commas("libstdc++*,ld-linux*,/a,b/,[a,b]c") == [
        "libstdc++*",
        "ld-linux*",
        "/a,b/",
        "[a,b]c",
    ]
    assert split_commas("/usr/lib/a.so,b") == ["/usr/lib/a.so", "b"]

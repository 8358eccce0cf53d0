# SPDX-License-Identifier: Apache-2.0
"""What the pictures of several verbs share: names that fit, and text that XML takes."""

from __future__ import annotations


def shortened(name: str, most: int) -> str:
    """Return a name of at most `most` letters: its beginning says more than its end."""
    return name if len(name) <= most else f"{name[: most - 9]}…{name[-8:]}"


def escaped(text: str) -> str:
    """Return text that XML takes: no markup, no control characters, no lone surrogates."""
    plain = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        plain = plain.replace(sign, name)
    return plain.encode("utf-8", "replace").decode()

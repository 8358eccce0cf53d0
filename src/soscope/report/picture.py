# SPDX-License-Identifier: Apache-2.0
"""Parts that the pictures of several verbs share: short names, and text for XML."""

from __future__ import annotations


def shortened(name: str, most: int) -> str:
    """Return a name of at most `most` letters. More of its beginning is kept than of its end."""
    return name if len(name) <= most else f"{name[: most - 9]}…{name[-8:]}"


def escaped(text: str) -> str:
    """Return text for XML: without markup, control characters and lone surrogates."""
    plain = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        plain = plain.replace(sign, name)
    return plain.encode("utf-8", "replace").decode()

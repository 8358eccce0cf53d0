# SPDX-License-Identifier: Apache-2.0
"""Parse queries: NAME, NAME@VERSION, NAME@@VERSION, IMAGE!NAME, 0xADDR."""

from __future__ import annotations

from soscope.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_HEXADECIMAL = ("0x", "0X")


class Query:
    """One query: `addr` is set for a query by address, `name` for all others.

    `image` is the text before "!", `version` the text behind "@" or "@@". `is_demangled` tells
    that the name is a demangled C++ name.
    """

    __slots__ = ("addr", "image", "is_demangled", "name", "text", "version")

    def __init__(
        self,
        text: str,
        name: str = "",
        *,
        addr: int | None = None,
        image: str | None = None,
        version: str | None = None,
        is_demangled: bool = False,
    ) -> None:
        self.text = text
        self.name = name
        self.addr = addr
        self.image = image
        self.version = version
        self.is_demangled = is_demangled


def parse(text: str) -> Query:
    """Parse one query. Raises UsageError for one without a name."""
    word = text.strip()
    if word[:2].lower() == "0x":
        try:
            return Query(text, addr=int(word, 16))
        except ValueError:
            raise UsageError(f"'{text}' is not an address", hint="hexadecimal digits") from None
    image: str | None = None
    # The last "!" counts, because a path may contain one, too. In C++ names, "!" is only part of
    # "operator!".
    marks = [at for at, sign in enumerate(word) if sign == "!" and at]
    marks = [at for at in marks if not word[:at].rstrip().endswith("operator")]
    if marks:
        mark = marks[-1]
        image, word = word[:mark], word[mark + 1 :]
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    name, sign, version = word.partition("@")
    version = version.removeprefix("@")
    if not name or (sign and not version):
        raise UsageError(f"'{text}' is no query", hint="NAME, NAME@VERSION, IMAGE!NAME or 0xADDR")
    is_demangled = any(mark in name for mark in ("::", "(", "<", " ", "~"))
    return Query(text, name, image=image, version=version or None, is_demangled=is_demangled)


class Batch:
    """Many queries, divided by how they are answered: `names` and `addrs` in one pass each.

    `keys` has, for each query, its text in `names` or `addrs`, "" for a query that is answered
    alone. The latter are Query objects in `queries`. Plain names and addresses, of which there
    may be very many, are not converted.
    """

    __slots__ = ("addrs", "keys", "names", "queries")

    def __init__(self, queries: Iterable[Query | str]) -> None:
        """Divide the queries. Raises UsageError as `parse` does."""
        self.queries: list[Query | str] = []
        self.keys: list[str] = []
        self.names: set[str] = set()
        self.addrs: dict[str, int] = {}
        for query in queries:
            if not isinstance(query, str):
                self._take(query)
                continue
            if query.isidentifier():
                self.names.add(query)
            elif query.startswith(_HEXADECIMAL) or query.lstrip().startswith(_HEXADECIMAL):
                try:
                    self.addrs[query] = int(query, 16)
                except ValueError:
                    parse(query)  # raises the error
                    raise
            else:
                self._take(parse(query))
                continue
            self.queries.append(query)
            self.keys.append(query)

    def _take(self, query: Query) -> None:
        text, key = query.text, ""
        if query.addr is not None:
            if text.lstrip().startswith(_HEXADECIMAL):
                self.addrs[text], key = query.addr, text
        elif query.name == text and text.isidentifier() and not (query.image or query.version):
            self.names.add(text)
            key = text
        self.queries.append(query)
        self.keys.append(key)

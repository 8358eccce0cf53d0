# SPDX-License-Identifier: Apache-2.0
"""Parse a query for a symbol or an address, and describe its answer."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.live.images.image import LoadedImage
from soscope.model.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


# The answer to a query: one definition, several, or a reason why there is none.

OK = "ok"
NONE = "none"
AMBIGUOUS = "ambiguous"
UNBOUND = "unbound"  # it exists, but its address is not decided yet or cannot be known
NOT_ALLOCATED = "not-allocated"  # a thread-local variable that this thread has not used yet
NO_PERMISSION = "no-permission"

RULE_DLSYM = "dlsym"  # the result of dlsym(RTLD_DEFAULT, …) in the program
RULE_HANDLE = "handle"  # the result of dlsym for a handle of the image
RULE_VDSO = "vdso"
RULE_MEMORY = "memory"  # symbol of an image that is in no link map

KIND_FUNCTION = "function"
KIND_OBJECT = "object"
KIND_IFUNC = "ifunc"
KIND_TLS = "tls"
KIND_PLT = "plt"  # the program's own stub for the function
KIND_ABSOLUTE = "absolute"
KIND_UNKNOWN = "unknown"


class Candidate(Record):
    """One definition that was found; `addr` is None if it cannot be known.

    `wins` marks the definition that is the answer.
    """

    addr: int | None
    symbol: str
    version: str | None
    image: LoadedImage | None
    rule: str | None
    kind: str = KIND_UNKNOWN
    wins: bool = False


class Answer(Record):
    """The answer to one query; it is true if it has an address.

    >>> with soscope.Process(pid) as process:
    ...     answer = process.resolve("malloc")
    >>> (bool(answer), answer.image.name, answer.version, answer.kind, answer.rule)
    (True, 'libc.so.6', 'GLIBC_2.2.5', 'function', 'dlsym')
    >>> answer.why[2]
    'image 2 of the scope, libc.so.6, defines it'

    `status` is "ok", "none", "ambiguous" (see `candidates`), "unbound" (the address is not
    decided yet), "not-allocated" (a thread-local variable that the thread has not used yet) or
    "no-permission". Only "ok" has an `addr`, a run-time address. `offset` counts bytes from the
    start of the symbol; it is None unless the query was an address. `kind` is "function",
    "object", "ifunc", "tls", "plt", "absolute" or "unknown". `rule` is the rule that found it,
    `why` has one line for each step. `size` is the symbol's st_size, 0 if unknown. If the answer
    is the program's own stub, `provider` is the candidate to which the loader binds calls, else
    None. `value` is what --read found at the address, else None.
    """

    query: str
    status: str = NONE
    addr: int | None = None
    symbol: str | None = None
    version: str | None = None
    image: LoadedImage | None = None
    offset: int | None = None
    kind: str = KIND_UNKNOWN
    rule: str | None = None
    size: int = 0
    candidates: list[Candidate] = fresh(list)
    provider: Candidate | None = None
    value: object = None
    why: list[str] = fresh(list)

    def __bool__(self) -> bool:
        return self.status == OK

    def __repr__(self) -> str:
        """Show the query, the status and the address."""
        place = "" if self.addr is None else f" {self.addr:#x}"
        return f"<Answer {self.query!r}: {self.status}{place}>"

    def refuse(self, status: str, why: str) -> Answer:
        """Make this an answer without an address, and return it.

        >>> soscope.Answer("nobody").refuse("none", "no image defines it")
        <Answer 'nobody': none>
        """
        self.status = status
        self.addr = None
        self.why.append(why)
        return self

    def take(self, other: Answer) -> None:
        """Take over all fields of another answer, except the query; add its steps to the own ones.

        >>> answer = soscope.Answer("libc.so.6!free")
        >>> answer.take(soscope.Answer("free", "unbound"))
        >>> answer
        <Answer 'libc.so.6!free': unbound>
        """
        why = self.why + other.why
        for name in self.__slots__:
            if name not in ("query", "why"):
                setattr(self, name, getattr(other, name))
        self.why = why

    def as_candidate(self) -> Candidate:
        """Return this answer as one candidate of several.

        >>> soscope.Answer("free").as_candidate().kind
        'unknown'
        """
        return Candidate(
            self.addr, self.symbol or "", self.version, self.image, self.rule, self.kind
        )


# Parse queries: NAME, NAME@VERSION, NAME@@VERSION, IMAGE!NAME, 0xADDR.

_HEXADECIMAL = ("0x", "0X")


class Query(Record):
    """One query: `addr` is set for a query by address, `name` for all others.

    `image` is the text before "!", `version` the text behind "@" or "@@". `is_demangled` tells
    that the name is a demangled C++ name.
    """

    text: str
    name: str = ""
    addr: int | None = None
    image: str | None = None
    version: str | None = None
    is_demangled: bool = False


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
    alone. These are Query objects in `queries`. Plain names and addresses are
    not converted, because there may be very many.
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

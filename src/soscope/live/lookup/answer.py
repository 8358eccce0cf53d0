# SPDX-License-Identifier: Apache-2.0
"""The answer to a query: one definition, several, or a reason why there is none."""

from __future__ import annotations

from soscope.live.images.loadedimage import LoadedImage

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


class Candidate:
    """One definition that was found; `addr` is None if it cannot be known.

    `wins` marks the definition that is the answer.
    """

    __slots__ = ("addr", "image", "kind", "rule", "symbol", "version", "wins")

    def __init__(
        self,
        addr: int | None,
        symbol: str,
        version: str | None,
        image: LoadedImage | None,
        rule: str | None,
        kind: str = KIND_UNKNOWN,
        *,
        wins: bool = False,
    ) -> None:
        self.addr = addr
        self.symbol = symbol
        self.version = version
        self.image = image
        self.rule = rule
        self.kind = kind
        self.wins = wins


class Answer:
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

    __slots__ = (
        "addr",
        "candidates",
        "image",
        "kind",
        "offset",
        "provider",
        "query",
        "rule",
        "size",
        "status",
        "symbol",
        "value",
        "version",
        "why",
    )

    def __init__(self, query: str, status: str = NONE) -> None:
        self.query = query
        self.status = status
        self.addr: int | None = None
        self.symbol: str | None = None
        self.version: str | None = None
        self.image: LoadedImage | None = None
        self.offset: int | None = None
        self.kind = KIND_UNKNOWN
        self.rule: str | None = None
        self.size = 0
        self.candidates: list[Candidate] = []
        self.provider: Candidate | None = None
        self.value: object = None
        self.why: list[str] = []

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

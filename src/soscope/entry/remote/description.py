# SPDX-License-Identifier: Apache-2.0
"""The target description: the registers of a stub, and their offsets in what `g` returns.

It is read from the XML of `target.xml` and of the files that it includes, in order. A register
has the number in the description, or the one after the last. `g` returns them in the order of
numbers.
"""

from __future__ import annotations

from xml.parsers import expat

from soscope.errors import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_FILES = 32
_MOST_REGISTERS = 4096


class RemoteRegister:
    """One register: its `number`, `size` in bytes, `offset` in the bytes of `g`, and `kind`.

    `kind` is its type in the description: "ieee_double", "int", ….
    """

    __slots__ = ("kind", "name", "number", "offset", "size")

    def __init__(self, name: str, number: int, size: int, kind: str) -> None:
        self.name = name
        self.number = number
        self.size = size
        self.kind = kind
        self.offset = 0


def read(
    fetch: Callable[[str], str | None], plain: tuple[str, ...] = (), size: int = 4
) -> dict[str, RemoteRegister]:
    """Return the registers by name. `fetch` returns a file of the description, or None.

    `plain` are the registers if the stub describes none, each of `size` bytes. Raises RemoteError
    if there is no description and no `plain`, or if the description is malformed.
    """
    reader = _DescriptionReader(fetch)
    reader.take("target.xml")
    if not reader.registers:
        reader.registers = {
            name: RemoteRegister(name, number, size, "int") for number, name in enumerate(plain)
        }
    if not reader.registers:
        raise RemoteError("the stub does not say which registers it has")
    offset = 0
    for register in sorted(reader.registers.values(), key=lambda each: each.number):
        register.offset = offset
        offset += register.size
    return reader.registers


class _DescriptionReader:
    def __init__(self, fetch: Callable[[str], str | None]) -> None:
        self.registers: dict[str, RemoteRegister] = {}
        self._fetch = fetch
        self._seen: set[str] = set()
        self._next = 0

    def take(self, name: str) -> None:
        if name in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add(name)
        text = self._fetch(name)
        if text is None:
            return
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EntityDeclHandler = self._refuse
        try:
            parser.Parse(text, True)
        except expat.ExpatError as error:
            raise RemoteError(f"the stub's {name} is no XML: {error}") from error

    def _refuse(self, *_: object) -> None:
        raise RemoteError("the stub's description has entities of its own")

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        if element.endswith("include") and "href" in attributes:
            self.take(attributes["href"])
        elif element == "reg" and len(self.registers) < _MOST_REGISTERS:
            try:
                number = int(attributes.get("regnum", self._next))
                size = (int(attributes["bitsize"]) + 7) // 8
            except (KeyError, ValueError) as error:
                raise RemoteError("a register of the stub has no size") from error
            name = attributes.get("name", "")
            self.registers[name] = RemoteRegister(name, number, size, attributes.get("type", "int"))
            self._next = number + 1

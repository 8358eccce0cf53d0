# SPDX-License-Identifier: Apache-2.0
"""Names that are not dynamic symbols of a process, and look-ups from addresses to names.

One object serves one list of images. Its names are static symbols, names in debug files, names of
code that was made at run time, and demangled C++ names. Each result has the rule that found it.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.symboltable import ElfSymbol, SymbolEntry
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.lookup import answer as words
from soscope.live.lookup.answer import Answer, Candidate, Query
from soscope.live.lookup.lookup import Lookup
from soscope.live.names.containing import GAP, UNSIZED
from soscope.live.names.locate import STUB, Place

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported only if the other sources have no name
    from soscope.live.names.dwarfnames import DwarfNames
    from soscope.live.names.jitnames import JitName, JitNames

DWARF = "dwarf"

_MOST_PADDING = 256
_LONGEST_NOP = 16

_JIT_DESCRIPTOR = "__jit_debug_descriptor"
_KINDS = {
    c.STT_FUNC: words.KIND_FUNCTION,
    c.STT_OBJECT: words.KIND_OBJECT,
    c.STT_GNU_IFUNC: words.KIND_IFUNC,
}

Found = tuple[LoadedImage, str, ElfSymbol]  # image, rule, symbol


class PictureNames:
    """The names of a list of images; files are read when they are first needed.

    `notes` has reasons why files were refused or could not be read. `left_out` tells that there
    was too much to read.
    """

    __slots__ = ("_dwarfs", "_images", "_jit", "left_out", "notes")

    def __init__(self, images: Images) -> None:
        self._images = images
        self._dwarfs: dict[int, DwarfNames] = {}
        self._jit: list[JitNames] | None = None
        self.notes: list[str] = []
        self.left_out = False

    # ---- look-up by name ----

    def find(self, name: str, version: str | None, where: list[LoadedImage]) -> list[Found]:
        """Return the static symbols called `name` in these images, in order."""
        statics: list[Found] = []
        for image in where:
            statics += [(image, *definition) for definition in image.names.find(name, version)]
        return statics

    def having(self, wanted: set[str], where: list[LoadedImage]) -> dict[str, list[LoadedImage]]:
        """Return name -> images of `where` that have a static symbol with that name, in order."""
        texts = {os.fsencode(name): name for name in wanted}
        by_name: dict[str, list[LoadedImage]] = {}
        for image in where:
            known: set[bytes] = set()
            for _, symbols in image.names.parts():
                known |= symbols.known(texts.keys())
            for word in known:
                by_name.setdefault(texts[word], []).append(image)
        return by_name

    def described_images(self, where: list[LoadedImage]) -> list[LoadedImage]:
        """Return the images whose DWARF may have names."""
        return [image for image in where if self._dwarf(image).is_there]

    def statics(self, lookup: Lookup, query: Query, where: list[LoadedImage]) -> list[Answer]:
        """Return static symbols in these images, which no loader would find, as one answer each.

        If there are none and the query names no image, names of code made at run time are
        returned.
        """
        statics = self.find(query.name, query.version, where)
        answers = [self._settled(lookup, static, query.text) for static in statics]
        if not answers and query.image is None and query.version is None:
            answers = [_made(made, query.text) for made in self._find_made(query.name)]
        return answers

    def described(self, query: Query, where: list[LoadedImage]) -> list[Answer]:
        """Return names that only the DWARF of these images has, as one answer each."""
        if query.version is not None:
            return []
        answers = []
        for image in where:
            for described in self._dwarf(image).find(query.name):
                answer = Answer(query.text, words.OK)
                answer.addr = described.vaddr + image.load_bias & (1 << self._images.space.bits) - 1
                answer.symbol, answer.size, answer.image = described.name, described.size, image
                answer.rule = DWARF
                answer.kind = words.KIND_FUNCTION if described.is_function else words.KIND_OBJECT
                answer.why.append(f"{image.name}: described only by DWARF")
                answers.append(answer)
        return answers

    def _dwarf(self, image: LoadedImage) -> DwarfNames:
        known = self._dwarfs.get(id(image))
        if known is None:
            from soscope.live.names.dwarfnames import DwarfNames

            known = self._dwarfs[id(image)] = DwarfNames(image.names)
        return known

    def notes_of(self, images: list[LoadedImage]) -> list[str]:
        """Return the reasons why files of these images were refused or could not be read."""
        notes = [note for image in images for note in image.names.notes]
        return list(dict.fromkeys(notes + self.notes))

    def _settled(self, lookup: Lookup, static: Found, query: str) -> Answer:
        """Return one static symbol as an answer."""
        image, rule, symbol = static
        info = symbol.binding << 4 | symbol.type
        entry = SymbolEntry(0, info, 0, symbol.section, symbol.value, symbol.size, None)
        answer = Answer(query)
        answer.why.append(f"{image.name}: a symbol of {self._source(image, rule)}")
        if symbol.type == c.STT_GNU_IFUNC:
            return self._settled_ifunc(answer, static)
        lookup.settle(answer, (image, entry), symbol.name, rule)
        answer.version = symbol.version
        return answer

    def _settled_ifunc(self, answer: Answer, static: Found) -> Answer:
        """Fill in the function to which an IFUNC was resolved."""
        image, answer.rule, symbol = static
        answer.symbol, answer.version, answer.image = symbol.name, symbol.version, image
        answer.kind = words.KIND_IFUNC
        if self._images.space.is_patchwork:
            return answer.refuse(words.NO_PERMISSION, "an IFUNC, and slots may not be read")
        from soscope.live.lookup.ifunc import targets

        addrs = targets(image, symbol.value)
        if len(addrs) != 1:
            resolver = symbol.value + image.load_bias
            why = "slots that do not agree" if addrs else "nothing bound to it"
            return answer.refuse(words.UNBOUND, f"an IFUNC (resolver {resolver:#x}) with {why}")
        answer.status, answer.addr = words.OK, addrs[0]
        answer.why.append("an IFUNC, bound: what its IRELATIVE slot holds")
        return answer

    def _source(self, image: LoadedImage, rule: str) -> str:
        if rule == "debug-file":
            return image.names.debug_path or rule
        return {"static": ".symtab", "minidebug": ".gnu_debugdata"}.get(rule, rule)

    # ---- look-up by address ----

    def by_addr(self, result: Answer, addr: int) -> Answer:
        """Answer with the symbol that contains `addr`."""
        image = self._images.at(addr)
        if image is None:
            return self._outside(result, addr)
        place = image.locator.at(self._vaddr(image, addr))
        return self._placed(result, addr, image, place)

    def by_addrs(self, queries: list[tuple[str, int]]) -> list[Answer]:
        """Answer many pairs (query, address) in order, in one pass over each image."""
        answers = [Answer(text) for text, _ in queries]
        addrs = [addr for _, addr in queries]
        groups: dict[int, tuple[LoadedImage, list[int]]] = {}
        for at, image in enumerate(self._images.at_all(addrs)):
            if image is None:
                self._outside(answers[at], addrs[at])
            else:
                groups.setdefault(id(image), (image, []))[1].append(at)
        for image, places in groups.values():
            vaddrs = [self._vaddr(image, addrs[at]) for at in places]
            for at, place in zip(places, image.locator.at_all(vaddrs), strict=True):
                self._placed(answers[at], addrs[at], image, place)
        return answers

    def _vaddr(self, image: LoadedImage, addr: int) -> int:
        return addr - image.load_bias & (1 << self._images.space.bits) - 1

    def _placed(self, result: Answer, addr: int, image: LoadedImage, place: Place) -> Answer:
        """Fill in the symbol or stub at an address of an image."""
        result.image = image
        symbol = place.symbol
        if symbol is None or not place.is_found:
            stub = place.what == STUB
            if not stub and self._is_described(result, addr, image, place):
                return result
            result.why.append(f"{image.name}+{place.addr:#x}: {place.why}")
            if place.what == UNSIZED and symbol is not None:
                start = symbol.value + image.load_bias
                result.candidates.append(
                    Candidate(start, symbol.name, symbol.version, image, place.rule, _kind(symbol))
                )
            result.kind = words.KIND_PLT if stub else words.KIND_UNKNOWN
            return result
        result.status = words.OK
        result.addr = addr
        result.symbol = symbol.name
        result.version = symbol.version
        result.offset = place.offset
        result.rule = place.rule
        if place.what == STUB:
            result.kind = words.KIND_PLT
            slot = place.slot + image.load_bias
            result.why.append(f"{image.name}: {place.why}, through the slot at {slot:#x}")
        else:
            result.size = symbol.size
            result.kind = _kind(symbol)
            if place.what == UNSIZED:
                result.why.append(f"{symbol.name} stands there, and has no size")
        return result

    def _is_described(self, result: Answer, addr: int, image: LoadedImage, place: Place) -> bool:
        """Fill in the function that only DWARF has at an address; return whether there is one."""
        vaddr = place.addr
        if not image.executes(addr) or not image.names.may_describe(vaddr):
            return False
        if place.symbol is not None and place.what == GAP:
            from soscope.binfmt.isa.x86.stubs import is_padding

            size = min(place.offset, _MOST_PADDING)
            if is_padding(image.space.read(addr - size, size + _LONGEST_NOP), size):
                return False
        function = self._dwarf(image).at(vaddr)
        if function is None:
            return False
        result.status, result.addr, result.rule = words.OK, addr, DWARF
        result.symbol, result.size = function.name, function.size
        result.offset = vaddr - function.vaddr
        result.kind = words.KIND_FUNCTION
        return True

    # ---- code made at run time ----

    def _outside(self, result: Answer, addr: int) -> Answer:
        """Answer for an address in no image: code made at run time, or no name."""
        mapping = self._images.space.mapping_at(addr)
        if mapping is None:
            return result.refuse(words.NONE, "nothing is mapped there")
        for names in self._made_names():
            made = names.at(addr)
            if made is not None:
                _fill_made(result, made, addr)
                result.offset = addr - made.start
                return result
        what = mapping.path or "memory without a file"
        return result.refuse(words.NONE, f"in no image: {what}, {mapping.flags}")

    def _find_made(self, name: str) -> list[JitName]:
        return [made for names in self._made_names() for made in names.find(name)]

    def _made_names(self) -> list[JitNames]:
        """Return the tables of code made at run time, registered code (GDB's interface) first."""
        if self._jit is None:
            from soscope.live.names.jitnames import JitNames, JitRoom, perf_map, registered

            self._jit = []
            registered_names: list[JitName] = []
            space, room = self._images.space, JitRoom()
            for addr in self._descriptors():
                registered_names += registered(space, addr, self.notes, room)
            self._jit = [JitNames(registered_names), perf_map(space, self.notes, room)]
            self.left_out = room.left_out
        return self._jit

    def _descriptors(self) -> list[int]:
        """Return the addresses of all `__jit_debug_descriptor`: each image may have its own."""
        from soscope.binfmt.elf.lookup import Name

        name = Name(os.fsencode(_JIT_DESCRIPTOR))
        addrs: list[int] = []
        for image in self._images.all:
            try:
                dynamic = image.symbols.find(name) if image.dynamic else None
            except FormatError:
                dynamic = None
            if dynamic is not None:
                values = [dynamic.value]
            else:
                own = image.names.own
                found = [] if own is None else own.find(_JIT_DESCRIPTOR)
                values = [symbol.value for symbol in found]
            addrs += [value + image.load_bias for value in values]
        return list(dict.fromkeys(addrs))


def _made(made: JitName, query: str) -> Answer:
    """Return a piece of code made at run time as an answer."""
    answer = Answer(query)
    _fill_made(answer, made, made.start)
    return answer


def _fill_made(answer: Answer, made: JitName, addr: int) -> None:
    answer.status, answer.addr = words.OK, addr
    answer.symbol, answer.size, answer.rule = made.name, made.size, made.rule
    answer.kind = words.KIND_FUNCTION if made.is_function else words.KIND_OBJECT


def _kind(symbol: ElfSymbol) -> str:
    return _KINDS.get(symbol.type, words.KIND_UNKNOWN)

# SPDX-License-Identifier: Apache-2.0
"""Find the definition of a name by the loader's rules, as dlsym and dlvsym do."""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.lookup import Name, gnu_hash
from soscope.binfmt.elf.symboltable import CALL, DLSYM, SymbolEntry
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.images.scope import rtld_global
from soscope.live.lookup import answer as words
from soscope.live.lookup.answer import Answer, Candidate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_KINDS = {
    c.STT_FUNC: words.KIND_FUNCTION,
    c.STT_OBJECT: words.KIND_OBJECT,
    c.STT_COMMON: words.KIND_OBJECT,
    c.STT_TLS: words.KIND_TLS,
    c.STT_GNU_IFUNC: words.KIND_IFUNC,
}

Hit = tuple[LoadedImage, SymbolEntry]


class Lookup:
    """Look-ups among a process's images; `tid` is the thread whose thread-local variables count."""

    __slots__ = ("_is_musl", "_mask", "images", "tid")

    def __init__(self, images: Images, tid: int) -> None:
        self.images = images
        self.tid = tid
        self._is_musl: bool | None = None
        self._mask = (1 << images.space.bits) - 1

    @property
    def is_musl(self) -> bool:
        """Return whether the loader is musl's, so that musl's rules apply."""
        if self._is_musl is None:
            from soscope.live.images.scope import is_musl

            self._is_musl = is_musl(self.images)
        return self._is_musl

    # ---- definitions ----

    def first(
        self,
        where: Iterable[LoadedImage],
        name: bytes,
        version: str | None,
        *,
        use: str = DLSYM,
    ) -> Hit | None:
        """Return the first definition that the loader accepts for `use`, image by image."""
        wanted = Name(name)
        musl = self.is_musl
        for image in where:
            try:
                entry = image.symbols.find(wanted, version, use=use, musl=musl)
            except FormatError:
                continue  # partly loaded or damaged: ld.so has no symbols of it, either
            if entry is not None:
                return image, entry
        return None

    def first_all(self, where: Iterable[LoadedImage], names: Iterable[str]) -> dict[str, Hit]:
        """Return the results of `first` for many names, in one pass over each image."""
        wanted: dict[int, list[bytes]] = {}
        texts: dict[bytes, tuple[str, int]] = {}
        for name in names:
            word = os.fsencode(name)
            hashed = gnu_hash(word) | 1
            word += b"\0"
            texts[word] = name, hashed
            wanted.setdefault(hashed, []).append(word)
        hits: dict[str, Hit] = {}
        musl = self.is_musl
        for image in where:
            if not wanted:
                break
            try:
                symbols = image.symbols
                for word, several in symbols.named_all(wanted).items():
                    name, hashed = texts[word]
                    if name in hits:
                        continue
                    chosen = symbols.choose(several, musl=musl)
                    if chosen is not None:
                        hits[name] = image, chosen
                        left = wanted[hashed]
                        if len(left) == 1:
                            del wanted[hashed]
                        else:
                            left.remove(word)
            except FormatError:
                continue  # partly loaded: the loader would find nothing in it
        return hits

    def exported(self, where: Iterable[LoadedImage], names: Iterable[str]) -> set[str]:
        """Return the names of `names` that any of these images defines, with any version."""
        wanted: dict[int, list[bytes]] = {}
        texts = {os.fsencode(name) + b"\0": name for name in names}
        for word in texts:
            wanted.setdefault(gnu_hash(word[:-1]) | 1, []).append(word)
        exported: set[str] = set()
        for image in where:
            try:
                exported.update(map(texts.__getitem__, image.symbols.named_all(wanted)))
            except FormatError:
                continue  # the same as above
        return exported

    def every(self, where: Iterable[LoadedImage], name: bytes) -> list[Hit]:
        """Return all definitions of a name, of every version, in the order of the images."""
        wanted = Name(name)
        hits: list[Hit] = []
        for image in where:
            try:
                every = image.symbols.definitions(wanted, musl=self.is_musl)
                hits += [(image, entry) for entry in every]
            except FormatError:
                continue  # the same as above
        return hits

    def beyond(self, name: bytes, version: str | None, namespace: int) -> list[Hit]:
        """Return the definitions in images that are not in the global scope.

        If images of the same namespace have definitions, only these are returned. If not, the
        definitions in other namespaces are returned. Images in no link map only count if no other
        image has a definition.
        """
        scope = set(map(id, self.images.scope(namespace)))
        rest = [image for image in self.images.linked if id(image) not in scope]
        groups = [
            [image for image in rest if image.namespace == namespace],
            [image for image in rest if image.namespace != namespace],
        ]
        for group in groups:
            hits = self._each(group, name, version)
            if hits:
                return hits
        return self._each(self.images.all[len(self.images.linked) :], name, version)

    def _each(self, where: list[LoadedImage], name: bytes, version: str | None) -> list[Hit]:
        hits = [self.first([image], name, version) for image in where]
        return [hit for hit in hits if hit is not None]

    # ---- addresses ----

    def settle(self, result: Answer, hit: Hit, name: str, rule: str) -> Answer:
        """Fill the definition `hit` and its current address into an answer."""
        image, entry = hit
        if self.images.space.is_patchwork and (
            entry.binding == c.STB_GNU_UNIQUE
            or entry.type == c.STT_TLS
            or (entry.type == c.STT_GNU_IFUNC and not entry.is_stub)
        ):
            result.symbol, result.image, result.kind = name, image, kind_of(entry)
            why = "where it is stands in the memory of the process, which may not be read"
            return result.refuse(words.NO_PERMISSION, why)
        if entry.binding == c.STB_GNU_UNIQUE:
            image, entry = self._unique(result, image, entry, name)
        result.status = words.OK
        result.symbol = name
        result.version = self.version_of(image, entry)
        result.image = image
        result.rule = rule
        result.size = entry.size
        result.kind = kind_of(entry)
        if entry.type == c.STT_TLS:
            self._settle_tls(result, image, entry)
        elif entry.type == c.STT_GNU_IFUNC and not entry.is_stub:
            self._settle_ifunc(result, image, entry, name)
        else:
            base = 0 if entry.section == c.SHN_ABS and not self.is_musl else image.load_bias
            addr = entry.value + base & self._mask
            result.addr = addr
            result.why.append(f"load bias {base:#x} + st_value {entry.value:#x} = {addr:#x}")
        if entry.is_stub:
            self._settle_provider(result, image, name)
        return result

    def _settle_provider(self, result: Answer, image: LoadedImage, name: str) -> None:
        """Fill in the function to which the loader binds calls through the program's own stub."""
        scope = self.images.scope(image.namespace)
        hit = self.first(scope, os.fsencode(name), result.version, use=CALL)
        if hit is not None:
            result.provider = self.candidate(hit, name, words.RULE_DLSYM)
            result.why.append(f"a stub: calls of {name} are bound to the one in {hit[0].name}")

    def _unique(self, result: Answer, image: LoadedImage, entry: SymbolEntry, name: str) -> Hit:

        owner = unique_owner(self.images, image.namespace, os.fsencode(name))
        if owner is None:
            result.why.append("STB_GNU_UNIQUE, not looked up yet")
            return image, entry
        chosen = owner[0].symbols.entry(owner[1])
        result.why.append(f"STB_GNU_UNIQUE: the namespace uses the one in {owner[0].name}")
        return owner[0], chosen

    def _settle_tls(self, result: Answer, image: LoadedImage, entry: SymbolEntry) -> None:
        from soscope.live.lookup.tls import Unknown, tls_addr

        try:
            result.addr, why = tls_addr(self.images, image, entry.value, self.tid)
        except Unknown as error:
            status = words.NOT_ALLOCATED if error.is_unallocated else words.UNBOUND
            result.refuse(status, f"thread {self.tid}: {error}")
        else:
            result.why.append(f"thread {self.tid}: {why}, st_value {entry.value:#x}")

    def _settle_ifunc(
        self, result: Answer, image: LoadedImage, entry: SymbolEntry, name: str
    ) -> None:
        from soscope.live.lookup.ifunc import target

        bound = target(self.images, image, name, entry)
        if bound.addr is None:
            result.refuse(words.UNBOUND, bound.why)
            result.candidates += [
                Candidate(addr, name, result.version, image, result.rule, words.KIND_IFUNC)
                for addr in bound.others
            ]
        else:
            result.addr = bound.addr
            result.why.append(f"an IFUNC, bound: {bound.why}")

    def version_of(self, image: LoadedImage, entry: SymbolEntry) -> str | None:
        """Return the name of a definition's version, None if it has none."""
        try:
            return image.symbols.version_of(entry)
        except FormatError:
            return None

    def candidate(self, hit: Hit, name: str, rule: str) -> Candidate:
        """Return one definition as a candidate, with its address."""
        answer = self.settle(Answer(name), hit, name, rule)
        return Candidate(answer.addr, name, answer.version, answer.image, rule, answer.kind)


def kind_of(entry: SymbolEntry) -> str:
    """Return the kind of a definition, as a constant for `Answer.kind`."""
    if entry.is_stub:
        return words.KIND_PLT
    if entry.section == c.SHN_ABS and entry.type != c.STT_TLS:
        return words.KIND_ABSOLUTE
    return _KINDS.get(entry.type, words.KIND_UNKNOWN)


def rule_of(image: LoadedImage) -> str:
    """Return the rule for a definition in an image outside of the global scope."""
    if image.is_vdso:
        return words.RULE_VDSO
    return words.RULE_HANDLE if image.link_map or image.is_main else words.RULE_MEMORY


# STB_GNU_UNIQUE: the one definition that a whole namespace uses, even if others exist.
#
# For each namespace, glibc keeps a table of the definitions that it chose (`struct unique_sym`:
# hash, name, symbol, image; the image last). The table is private, but recognisable: every entry in
# use points to the symbol table of a known image.

_MAX_ENTRIES = 1 << 20


def unique_owner(images: Images, namespace: int, name: bytes) -> tuple[LoadedImage, int] | None:
    """Return the image and the symbol index to which a unique name is bound.

    Return None if the loader has not looked it up yet. Then the first definition that a look-up
    finds will be chosen.
    """
    place = rtld_global(images)
    if place is None:
        return None
    size = images.space.bits // 8
    data = images.space.read(*place)
    words = images.space.words(data)
    for at in range(len(words) - 2):
        table, room, used = words[at : at + 3]
        if not table or table % size or not 0 < used <= room <= _MAX_ENTRIES or room < 31:
            continue
        entries = _entries(images, table, room, used)
        if entries is None:
            continue
        for hit, symbol, image in entries:
            if image.namespace == namespace and hit == name:
                first = image.symbols.places[0]
                return image, (symbol - first) // image.encoding.symbol.size
    return None


def _entries(
    images: Images, table: int, room: int, used: int
) -> list[tuple[bytes, int, LoadedImage]] | None:
    """Return (name, symbol, image) of a table's entries in use, None if it is not such a table."""
    size = images.space.bits // 8
    data = images.space.read(table, room * 4 * size)
    if len(data) < room * 4 * size:
        return None
    entries = []
    for at in range(0, len(data), 4 * size):
        _, name, symbol, owner = images.space.words(data[at : at + 4 * size])
        if not name:
            continue
        image = images.by_link_map.get(owner)
        if image is None or symbol < image.symbols.places[0]:
            return None
        text = images.space.read(name, 4096).split(b"\0", 1)[0]
        entries.append((text, symbol, image))
    return entries if len(entries) == used else None

# SPDX-License-Identifier: Apache-2.0
"""The dynamic symbols of one loaded image, found as a loader finds them, and fast.

`soscope.binfmt.elf.symbols` reads word by word; a look-up that goes through five hundred images
cannot. Here the head of the hash table is read once and kept, so that most images are ruled
out by their bloom filter without a system call. Symbols themselves are read anew each time.
"""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.dynamic import Dynamic
from soscope.binfmt.elf.encoding import Encoding, encoding
from soscope.binfmt.elf.hashes import sysv_hash
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.versions import Versions
from soscope.binfmt.source import ByteSource, broken
from soscope.process.images.space import Space

_PIECE = 4096
_MAX_BUCKETS = 1 << 26
_MAX_CHAIN = 1 << 20
_MAX_SYMBOLS = 1 << 22
_TYPES = frozenset(
    (c.STT_NOTYPE, c.STT_OBJECT, c.STT_FUNC, c.STT_COMMON, c.STT_TLS, c.STT_GNU_IFUNC)
)
_VERDEF = Struct("<HHHHIII")
_VERNEED = Struct("<HHIII")
_VERNAUX = Struct("<IHHII")
_BINDINGS = frozenset((c.STB_GLOBAL, c.STB_WEAK, c.STB_GNU_UNIQUE))


class Definition:
    """One symbol that a look-up may end at. `value` is what the table says: link-time.

    `number` is its version's, as DT_VERSYM has it; `addr` where the table entry lies.
    """

    __slots__ = ("addr", "binding", "number", "other", "section", "size", "type", "value")

    def __init__(
        self, addr: int, value: int, size: int, info: int, other: int, section: int, number: int
    ) -> None:
        self.addr = addr
        self.value = value
        self.size = size
        self.type = info & 15
        self.binding = info >> 4
        self.other = other
        self.section = section
        self.number = number

    @property
    def is_hidden_version(self) -> bool:
        """Say whether only those get it who ask for its version."""
        return bool(self.number & c.VERSYM_HIDDEN)

    @property
    def is_stub(self) -> bool:
        """Say whether it is a program's own stub that stands for a function elsewhere."""
        return self.section == c.SHN_UNDEF


class DynamicSymbols:
    """The dynamic symbols of the image whose dynamic section is at `addr`.

    Raises FormatError where it cannot be read. Not to be kept beyond the image's life.
    """

    __slots__ = (
        "_bias",
        "_bloom_bits",
        "_bloom_count",
        "_buckets",
        "_first",
        "_gnu",
        "_head",
        "_memory",
        "_shift",
        "_soname",
        "_strings",
        "_symbols",
        "_sysv",
        "_version_names",
        "_versym",
        "dynamic",
        "encoding",
    )

    def __init__(self, space: Space, load_bias: int, addr: int) -> None:
        self._memory: ByteSource = space.memory
        self._bias = load_bias
        coding: Encoding = encoding(space.bits, "<")
        self.encoding = coding
        self.dynamic = Dynamic.read(self._memory, coding, addr) if addr else Dynamic([])
        self._symbols = self.pointer(c.DT_SYMTAB)
        self._strings = self.pointer(c.DT_STRTAB)
        self._versym = self.pointer(c.DT_VERSYM)
        self._gnu = self.pointer(c.DT_GNU_HASH)
        self._sysv = 0 if self._gnu else self.pointer(c.DT_HASH)
        self._head = b""
        self._version_names: dict[tuple[int, bool], str | None] = {}
        self._soname: str | None = None
        self._bloom_bits = coding.bits
        if self._gnu:
            self._open_gnu()

    def pointer(self, tag: int) -> int:
        """Return the run-time address that a tag has, 0 where there is none.

        glibc relocates the pointers in place, musl and the vDSO's do not; a load bias is
        larger than any link-time address.
        """
        value = self.dynamic.get(tag)
        if not value:
            return 0
        return value if value >= self._bias else value + self._bias

    def _open_gnu(self) -> None:
        self._head = head = self._memory.read(self._gnu, _PIECE)
        if len(head) < 16:
            raise broken(self._memory, "DT_GNU_HASH", self._gnu, "not there")
        unpack = self.encoding.u32.unpack_from
        self._buckets, self._first = unpack(head, 0)[0], unpack(head, 4)[0]
        self._bloom_count, self._shift = unpack(head, 8)[0], unpack(head, 12)[0]
        if self._buckets > _MAX_BUCKETS or not 0 < self._bloom_count <= _MAX_BUCKETS:
            raise broken(self._memory, "DT_GNU_HASH", self._gnu, f"{self._buckets} buckets")

    def _hash_bytes(self, offset: int, size: int) -> bytes:
        """Return bytes of DT_GNU_HASH, from what was kept if they are in it."""
        data = self._head[offset : offset + size]
        if len(data) < size:
            data = self._memory.read(self._gnu + offset, size)
            if len(data) < size:
                raise broken(self._memory, "DT_GNU_HASH", self._gnu + offset, "cut")
        return data

    # ---- by name ----

    def named(self, name: bytes, hashed: int) -> list[Definition]:
        """Return the entries called `name`, in order of the hash chain; `hashed` is gnu_hash.

        Raises FormatError where the tables are damaged or gone.
        """
        if self._gnu:
            indices = self._gnu_chain(hashed)
        elif self._sysv:
            indices = self._sysv_chain(sysv_hash(name))
        else:
            return []
        wanted = name + b"\0"
        found = []
        for index in indices:
            at, offset = self._string_of(index)
            if self._memory.read(self._strings + offset, len(wanted)) == wanted:
                found.append(self._definition(at, index))
        return found

    def _gnu_chain(self, hashed: int) -> list[int]:
        bits = self._bloom_bits
        size = bits // 8
        at = 16 + hashed // bits % self._bloom_count * size
        word = int.from_bytes(self._head[at : at + size] or self._hash_bytes(at, size), "little")
        if not word >> hashed % bits & word >> (hashed >> self._shift) % bits & 1:
            return []
        if not self._buckets:
            return []
        base = 16 + self._bloom_count * size
        at = base + hashed % self._buckets * 4
        index = int.from_bytes(self._hash_bytes(at, 4), "little")
        if not index:
            return []
        if index < self._first:
            raise broken(self._memory, "DT_GNU_HASH", self._gnu, f"a bucket has symbol {index}")
        found = []
        at = base + (self._buckets + index - self._first) * 4
        for _ in range(_MAX_CHAIN):
            value = int.from_bytes(self._hash_bytes(at, 4), "little")
            if value | 1 == hashed | 1:
                found.append(index)
            if value & 1:
                return found
            index += 1
            at += 4
        raise broken(self._memory, "DT_GNU_HASH", self._gnu, "a chain has no end")

    def _sysv_chain(self, hashed: int) -> list[int]:
        head = self._memory.read(self._sysv, 8)
        buckets, count = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
        if not buckets:
            return []
        found: list[int] = []
        where = hashed % buckets
        for _ in range(min(count, _MAX_CHAIN)):
            data = self._memory.read(self._sysv + 8 + 4 * where, 4)
            index = int.from_bytes(data, "little")
            if len(data) < 4 or index >= count:
                raise broken(self._memory, "DT_HASH", self._sysv, "a chain leads nowhere")
            if not index:
                return found
            found.append(index)
            where = buckets + index
        raise broken(self._memory, "DT_HASH", self._sysv, "a chain has no end")

    def _string_of(self, index: int) -> tuple[int, int]:
        """Return where entry `index` lies, and its st_name."""
        at = self._symbols + index * self.encoding.symbol.size
        data = self._memory.read(at, 4)
        if len(data) < 4:
            raise broken(self._memory, "DT_SYMTAB", at, "not there")
        return at, int.from_bytes(data, "little")

    def _definition(self, at: int, index: int) -> Definition:
        layout = self.encoding.symbol
        data = self._memory.read(at, layout.size)
        if len(data) < layout.size:
            raise broken(self._memory, "DT_SYMTAB", at, "not there")
        if self.encoding.bits == 64:
            _, info, other, section, value, size = layout.unpack(data)
        else:
            _, value, size, info, other, section = layout.unpack(data)
        number = 1
        if self._versym:
            number = int.from_bytes(self._memory.read(self._versym + 2 * index, 2), "little")
        return Definition(at, value, size, info, other, section, number)

    # ---- what a loader accepts ----

    def match(
        self, name: bytes, hashed: int, version: str | None, *, musl: bool = False
    ) -> Definition | None:
        """Return the entry that dlsym (dlvsym with a `version`) takes here, None if none.

        glibc's check_match and do_lookup_x, or musl's find_sym2. Raises FormatError.
        """
        return self.choose(self.named(name, hashed), version, musl=musl)

    def choose(
        self, entries: list[Definition], version: str | None, *, musl: bool = False
    ) -> Definition | None:
        """Return the one of several entries of a name that a loader takes, None if none."""
        chosen = None
        for found in entries:
            if not is_acceptable(found, musl=musl):
                continue
            if version is not None:
                if self._versym and self.version_of(found) != version:
                    continue
                return found
            if musl:
                if not found.is_hidden_version:
                    return found
                continue
            if found.number & ~c.VERSYM_HIDDEN < 2:
                return found
            if not found.is_hidden_version:
                if chosen is not None:
                    return None  # two default versions: glibc takes neither
                chosen = found
        return chosen

    def definitions(self, name: bytes, hashed: int, *, musl: bool = False) -> list[Definition]:
        """Return all that any version would get. Raises FormatError."""
        return [found for found in self.named(name, hashed) if is_acceptable(found, musl=musl)]

    def version_of(self, found: Definition) -> str | None:
        """Return the name of an entry's version, None where it has none."""
        number = found.number & ~c.VERSYM_HIDDEN
        if number < 2:
            return None
        name = self._version_names.get((number, found.is_stub))
        if name is None:
            name = self._version_name(number, is_defined=not found.is_stub)
            self._version_names[number, found.is_stub] = name
        return name

    def _version_name(self, number: int, *, is_defined: bool) -> str | None:
        """Read the name of one version: hundreds that nobody asked for are left alone."""
        ways = [self._defined_version, self._needed_version]
        for way in ways if is_defined else reversed(ways):  # a copied variable's is another's
            offset = way(number)
            if offset is not None:
                return self._reader().string(offset, "name of a version")
        return Versions(self._reader()).name(number, is_defined=is_defined)

    def _defined_version(self, number: int) -> int | None:
        """Return where DT_STRTAB names a version of one's own, None where that is not near."""
        data = self._memory.read(self.pointer(c.DT_VERDEF), _PIECE)
        place = 0
        # Elfxx_Verdef: version, flags, ndx, count, hash, aux, next; then its Elfxx_Verdaux
        while place + 20 <= len(data):
            _, _, index, _, _, aux, following = _VERDEF.unpack_from(data, place)
            name = data[place + aux : place + aux + 4]
            if index == number:
                return int.from_bytes(name, "little") if len(name) == 4 else None
            if not following:
                break
            place += following
        return None

    def _needed_version(self, number: int) -> int | None:
        """Return where DT_STRTAB names another's version, None where that is not near."""
        data = self._memory.read(self.pointer(c.DT_VERNEED), _PIECE)
        place = 0
        # Elfxx_Verneed: version, count, file, aux, next; Elfxx_Vernaux: hash, flags, other, name,
        # next
        while place + 16 <= len(data):
            _, count, _, aux, following = _VERNEED.unpack_from(data, place)
            at = place + aux
            for _ in range(count):
                if at + 16 > len(data):
                    return None
                _, _, other, name, more = _VERNAUX.unpack_from(data, at)
                if other & ~c.VERSYM_HIDDEN == number:
                    return int(name)
                if not more:
                    break
                at += more
            if not following:
                break
            place += following
        return None

    @property
    def soname(self) -> str:
        """DT_SONAME, "" where there is none. Raises FormatError."""
        if self._soname is None:
            offset = self.dynamic.get(c.DT_SONAME)
            self._soname = "" if offset is None else self._reader().string(offset, "DT_SONAME")
        return self._soname

    @property
    def needed(self) -> list[str]:
        """The DT_NEEDED names, in order. Raises FormatError."""
        reader = self._reader()
        return [reader.string(offset, "DT_NEEDED") for offset in self.dynamic.all(c.DT_NEEDED)]

    def _reader(self) -> ElfImage:
        return ElfImage(
            self._memory,
            encoding=self.encoding,
            header=None,
            segments=[],
            load_bias=self._bias,
            is_mapped=True,
            dynamic=self.dynamic,
        )

    # ---- many at once ----

    def chains(self) -> tuple[int, bytes] | None:
        """Return the first hashed symbol's index and all hash values from it on (u32 each).

        None where there is no DT_GNU_HASH. Raises FormatError.
        """
        if not self._gnu:
            return None
        if not self._buckets:
            return self._first, b""
        unpack = self.encoding.u32.iter_unpack
        base = 16 + self._bloom_count * (self._bloom_bits // 8)
        last = max(unpack(self._hash_bytes(base, 4 * self._buckets)))[0]
        if not last:
            return self._first, b""
        if last < self._first:
            raise broken(self._memory, "DT_GNU_HASH", self._gnu, f"a bucket has symbol {last}")
        base += 4 * self._buckets
        at = base + 4 * (last - self._first)
        for _ in range(_MAX_CHAIN):
            piece = self._hash_bytes(at, 4)
            at += 4
            if piece[0] & 1:
                return self._first, self._hash_bytes(base, at - base)
        raise broken(self._memory, "DT_GNU_HASH", self._gnu, "a chain has no end")

    def named_all(self, wanted: dict[int, list[bytes]]) -> dict[bytes, list[Definition]]:
        """Return the entries of many names at once, in order of the table.

        `wanted` has, for each gnu_hash with its lowest bit set, the names (with a NUL behind)
        that have it; so have the keys of the result. Raises FormatError.
        """
        chains = self.chains()
        if chains is None:
            return {}
        first, data = chains
        values = memoryview(data).cast("I")
        hits = [at + first for at, value in enumerate(values) if value | 1 in wanted]
        if not hits:
            return {}
        size = self.encoding.symbol.size
        low, high = hits[0], hits[-1] + 1
        table = self._take(self._symbols + low * size, (high - low) * size, "DT_SYMTAB")
        strings = self._memory.read(self._strings, self.dynamic.get(c.DT_STRSZ) or 0)
        numbers: memoryview | bytes = b""
        if self._versym:
            raw = self._take(self._versym + 2 * low, 2 * (high - low), "DT_VERSYM")
            numbers = memoryview(raw).cast("H")
        unpack = self.encoding.symbol.unpack_from
        is_wide = self.encoding.bits == 64
        found: dict[bytes, list[Definition]] = {}
        for index in hits:
            fields = unpack(table, (index - low) * size)
            for name in wanted[values[index - first] | 1]:
                if strings.startswith(name, fields[0]):
                    if is_wide:
                        _, info, other, section, value, length = fields
                    else:
                        _, value, length, info, other, section = fields
                    number = numbers[index - low] if numbers else 1
                    addr = self._symbols + index * size
                    entry = Definition(addr, value, length, info, other, section, number)
                    found.setdefault(name, []).append(entry)
        return found

    def _take(self, addr: int, size: int, field: str) -> bytes:
        data = self._memory.read(addr, size)
        if len(data) < size:
            raise broken(self._memory, field, addr, "cut")
        return data

    @property
    def tables(self) -> tuple[int, int]:
        """The run-time addresses of DT_SYMTAB and DT_STRTAB."""
        return self._symbols, self._strings

    @property
    def has_gnu_hash(self) -> bool:
        """Say whether it has DT_GNU_HASH."""
        return bool(self._gnu)

    def entry(self, index: int) -> Definition:
        """Return entry `index`. Raises FormatError."""
        return self._definition(self._symbols + index * self.encoding.symbol.size, index)

    def entry_at(self, addr: int) -> Definition:
        """Return the entry that lies at `addr`. Raises FormatError."""
        return self._definition(addr, (addr - self._symbols) // self.encoding.symbol.size)

    def indices_named(self, name: bytes) -> set[int]:
        """Return the indices of all entries called `name`, imports included.

        Imports are in no hash table: the symbol table is read as far as DT_STRTAB, which
        every linker puts behind it, or as DT_HASH counts. Raises FormatError.
        """
        size = self.encoding.symbol.size
        count = (self._strings - self._symbols) // size
        if not 0 < count < _MAX_SYMBOLS:
            count = len(self._reader().symbols)
        strings = self._memory.read(self._strings, self.dynamic.get(c.DT_STRSZ) or 0)
        wanted = set()
        at = strings.find(name + b"\0")
        while at >= 0:
            wanted.add(at)
            at = strings.find(name + b"\0", at + 1)
        if not wanted:
            return set()
        table = self._memory.read(self._symbols, count * size)
        table = table[: len(table) // size * size]
        fields = self.encoding.symbol.iter_unpack(table)
        return {index for index, one in enumerate(fields) if one[0] in wanted}


def is_acceptable(found: Definition, *, musl: bool = False) -> bool:
    """Say whether a loader looks at this entry at all, whatever its version.

    musl has no IFUNC, no absolute zero, and leaves visibility to the link editor.
    """
    if not found.value and found.type != c.STT_TLS and (musl or found.section != c.SHN_ABS):
        return False
    if found.type not in _TYPES or found.binding not in _BINDINGS:
        return False
    if found.section == c.SHN_UNDEF and found.type == c.STT_TLS:
        return False
    if musl:
        return found.type != c.STT_GNU_IFUNC
    return found.other & 3 not in (c.STV_HIDDEN, c.STV_INTERNAL)

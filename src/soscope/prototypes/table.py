# SPDX-License-Identifier: Apache-2.0
"""Build SEC_FUNCTIONS (wire.h), the agent's table of functions and their captures."""

from __future__ import annotations

from fnmatch import fnmatchcase

from soscope.errors import FormatError
from soscope.model.record import Record
from soscope.prototypes.capture import CapturePrograms, Op
from soscope.prototypes.catalog import TREATMENT_FAMILIES
from soscope.select.patterns import Automaton, compile_bre
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# Read prototypes/families.txt: the libraries whose functions a declaration is for.

_WORDS = ("of", "in", "but")


class Families:
    """The contents of families.txt."""

    __slots__ = ("_globs",)

    def __init__(self, text: str, file: str) -> None:
        """Parse the contents of a file. Raises FormatError."""
        self._globs: dict[tuple[str, str], list[str]] = {}
        last: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if not line[0].isspace():
                name, said = words.pop(0), words.pop(0) if words else ""
                if name not in TREATMENT_FAMILIES or said not in _WORDS:
                    raise FormatError(f"{file}:{number}: '{name} {said}' is no family", field=name)
                last = self._globs.setdefault((name, said), [])
            last += words

    def flag(self, function: str, where: str) -> int:
        """Return the family's flag for a function declared at `where`, 0 if it has no family."""
        file = where.partition(":")[0]
        for name, index in TREATMENT_FAMILIES.items():
            if self._has(name, "of", file) and not self._has(name, "but", function):
                return index << layout.FN_FAMILY_SHIFT
        return 0

    def automata(self) -> list[tuple[int, Automaton]]:
        """Return (index, automaton for names of its images and versions) of each family."""
        return [
            (
                index,
                compile_bre(
                    r"\|".join(
                        glob.replace(".", r"\.").replace("*", ".*")
                        for glob in self._globs.get((name, "in"), [])
                    )
                ),
            )
            for name, index in TREATMENT_FAMILIES.items()
        ]

    def _has(self, name: str, said: str, what: str) -> bool:
        return any(fnmatchcase(what, glob) for glob in self._globs.get((name, said), []))


# Read prototypes/groups.txt: the sets of functions for filters (`-e %mem`).

_WILD = frozenset("*?[")
_ALL = "..."


def read_groups(
    text: str, file: str, names: list[str], also: Callable[[str], list[str]]
) -> dict[str, list[str]]:
    """Return the functions of each set, in order.

    Patterns are for the declared functions, `names`. `also` returns the other names of a
    function. A name that ends in `*` matches all names that begin so, declared or not. Raises
    FormatError, with file and line, for a set that is defined twice.
    """
    groups: dict[str, list[str]] = {}
    members: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if not line[0].isspace():
            group = words.pop(0)
            if group in groups:
                raise FormatError(f"{file}:{number}: '{group}' is defined twice", field=group)
            members = groups[group] = []
        for word in words:
            _add(members, word, names, also)
    return groups


def _add(
    members: list[str],
    word: str,
    names: list[str],
    also: Callable[[str], list[str]],
) -> None:
    pattern = word.removeprefix("-")
    if pattern.endswith(_ALL):
        matching = [pattern.replace(_ALL, "*")]
    elif _WILD.isdisjoint(pattern):
        matching = [pattern]
    else:
        matching = [name for name in names if fnmatchcase(name, pattern)]
    if word.startswith("-"):
        gone = {other for name in matching for other in (name, *also(name))}
        members[:] = [name for name in members if name not in gone]
        return
    known = set(members)
    for name in matching:
        for other in (name, *also(name)):
            if other not in known:
                known.add(other)
                members.append(other)


# Read prototypes/special.txt: functions that need a special treatment.

TREATMENTS = {
    "entry-only": layout.FN_ENTRY_ONLY,
    "twice": layout.FN_TWICE,
    "vfork": layout.FN_TWICE,
    "never": layout.FN_NEVER,
    "brief": layout.FN_BRIEF,
}


class Special:
    """`names` maps a name to its flags, `globs` a flag to its patterns in order."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.globs: dict[int, list[str]] = {}

    def read(self, text: str, file: str) -> None:
        """Read the treatments of `text`. Raises FormatError with file and line."""
        flag = 0
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if not line[0].isspace():
                treatment = words.pop(0)
                if treatment not in TREATMENTS:
                    raise FormatError(
                        f"{file}:{number}: '{treatment}' is no treatment", field=treatment
                    )
                flag = TREATMENTS[treatment]
            for word in words:
                self._add(word, flag, f"{file}:{number}")

    def _add(self, word: str, flag: int, where: str) -> None:
        if _WILD.isdisjoint(word):
            if word in self.names:
                raise FormatError(f"{where}: '{word}' is defined twice", field=word)
            self.names[word] = flag
        elif flag & layout.FN_TWICE:
            raise FormatError(
                f"{where}: a function that returns twice needs a name, not a pattern", field=word
            )
        elif flag == layout.FN_BRIEF:
            raise FormatError(f"{where}: a brief function needs a name, not a pattern", field=word)
        else:
            self.globs.setdefault(flag, []).append(word)


_MIN_BITS = 4


def gnu_hash(name: bytes) -> int:
    """Return DT_GNU_HASH's hash of a symbol's name."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFF_FFFF
    return value


class Known(Record):
    """One name for the table; `prototype` is soscope's index of it or `layout.NONE`."""

    name: str
    flags: int
    prototype: int
    error_rule: int
    programs: CapturePrograms | None


def build(known: list[Known], globs: list[int], *, arguments: bool, exits: bool) -> bytes:
    """Return the section for `known`, followed by globs with the given flags.

    The globs' pattern numbers stay 0, because they depend on the run. Without `arguments`,
    nothing is captured of a call; without `exits`, nothing of a return.
    """
    bits = _MIN_BITS
    while 3 << bits < 4 * len(known):  # at most three quarters full
        bits += 1
    cells_at = layout.FUNCTION_TABLE.size
    globs_at = cells_at + (layout.FUNCTION.size << bits)
    default_at = globs_at + layout.FUNCTION_GLOB.size * len(globs)
    programs_at = default_at + layout.FUNCTION.size
    programs_at += -programs_at % 8

    pack = layout.FUNCTION.struct.pack
    pool = _Pool(programs_at)
    wanted = [_wanted(described, pool, arguments=arguments, exits=exits) for described in known]
    names = bytearray()
    names_at = programs_at + len(pool.content)
    cells = [bytes(layout.FUNCTION.size)] * (1 << bits)
    for function, (flags, entry, leave, words) in zip(known, wanted, strict=True):
        name = function.name.encode()
        value = gnu_hash(name)
        at = names_at + len(names)
        cell = pack(value, at, entry, leave, function.prototype, flags, function.error_rule, words)
        _put(cells, value, cell)
        names += name + b"\0"

    default_flags = layout.FN_SIX if arguments else 0
    parts = [
        layout.FUNCTION_TABLE.struct.pack(
            bits, cells_at, globs_at, len(globs), default_at, *(0,) * 4, 0, _versioned(known), 0
        ),
        *cells,
        *(layout.FUNCTION_GLOB.struct.pack(0, flags) for flags in globs),
        pack(0, 0, 0, 0, layout.NONE, default_flags, layout.ERROR_NONE, 0),
    ]
    section = b"".join(parts)
    section += bytes(programs_at - len(section))
    return section + bytes(pool.content) + bytes(names)


def extended(
    section: bytes,
    more: list[Known],
    *,
    arguments: bool,
    exits: bool,
    others: Sequence[Known] = (),
) -> bytes:
    """Return a section of `build` with the functions `more`, which replace others of their name.

    `others` follow the functions of the same name, and apply to functions outside of its family.
    `arguments` and `exits` must be as for `build`.
    """
    bits, cells_at, globs_at, globs, default_at, *rest, versioned = (
        layout.FUNCTION_TABLE.struct.unpack_from(section)
    )
    size = layout.FUNCTION.size
    old = [
        layout.FUNCTION.struct.unpack_from(section, cells_at + number * size)
        for number in range(1 << bits)
    ]
    replaced = {function.name.encode() for function in more}
    names_of = {cell[1]: section[cell[1] : section.index(0, cell[1])] for cell in old if cell[1]}
    # a declaration without a version is for all versions
    kept = [
        cell
        for cell in old
        if cell[1] and not {names_of[cell[1]], names_of[cell[1]].split(b"@")[0]} & replaced
    ]
    more = [*more, *others]
    new_bits = bits
    while 3 << new_bits < 4 * (len(kept) + len(more)):
        new_bits += 1
    moved = (size << new_bits) - (size << bits)
    tail = section[globs_at:]
    tail += bytes(-(globs_at + moved + len(tail)) % 8)
    pool = _Pool(globs_at + moved + len(tail))
    wanted = [_wanted(each, pool, arguments=arguments, exits=exits) for each in more]
    names_at = pool.start + len(pool.content)
    names = bytearray()
    cells = [bytes(size)] * (1 << new_bits)
    pack = layout.FUNCTION.struct.pack
    for value, *places, prototype, flags, rule, words in kept:
        there = [place + moved if place else 0 for place in places]
        _put(cells, value, pack(value, *there, prototype, flags, rule, words))
    for function, (flags, entry, leave, words) in zip(more, wanted, strict=True):
        name = function.name.encode()
        value = gnu_hash(name)
        at = names_at + len(names)
        cell = pack(value, at, entry, leave, function.prototype, flags, function.error_rule, words)
        _put(cells, value, cell)
        names += name + b"\0"
    head = layout.FUNCTION_TABLE.struct.pack(
        new_bits,
        cells_at,
        globs_at + moved,
        globs,
        default_at + moved,
        *rest,
        versioned | _versioned(more),
    )
    return b"".join((head, *cells, tail, bytes(pool.content), bytes(names)))


def later(
    known: list[Known],
    asked: Iterable[str],
    start: int,
    before: int,
    *,
    arguments: bool,
    exits: bool,
) -> bytes:
    """Return a table of later functions, for `start` bytes behind a section's beginning.

    `before` is the position of the table before it, 0 if there is none. The table also tells that
    nothing more is known of the names in `asked`. `arguments` and `exits` must be as for `build`.
    """
    nothing = [Known(name, layout.FN_ASKED, layout.NONE, layout.ERROR_NONE, None) for name in asked]
    bits = 0
    while 3 << bits < 4 * (len(known) + len(nothing)):
        bits += 1
    cells_at = start + layout.FUNCTION_TABLE.size
    pool = _Pool(cells_at + (layout.FUNCTION.size << bits))
    pool.start += -pool.start % 8
    rows = [(each, _wanted(each, pool, arguments=arguments, exits=exits)) for each in known]
    rows += [(each, (each.flags, 0, 0, 0)) for each in nothing]
    names_at = pool.start + len(pool.content)
    names = bytearray()
    cells = [bytes(layout.FUNCTION.size)] * (1 << bits)
    pack = layout.FUNCTION.struct.pack
    for function, (flags, entry, leave, words) in rows:
        name = function.name.encode()
        value, at = gnu_hash(name), names_at + len(names)
        cell = pack(value, at, entry, leave, function.prototype, flags, function.error_rule, words)
        _put(cells, value, cell)
        names += name + b"\0"
    head = layout.FUNCTION_TABLE.struct.pack(bits, cells_at, 0, 0, 0, *(0,) * 4, before, 0, 0)
    table = b"".join((head, *cells))
    table += bytes(pool.start - start - len(table))
    return table + bytes(pool.content) + bytes(names)


def _versioned(known: list[Known]) -> int:
    """Return a bit mask with the names that have an entry for a single version."""
    bits = 0
    for function in known:
        name, at, _ = function.name.partition("@")
        if at:
            bits |= 1 << gnu_hash(name.encode()) % 32
    return bits


def _put(cells: list[bytes], value: int, cell: bytes) -> None:
    mask = len(cells) - 1
    index = (value >> 4) & mask
    while cells[index][4:8] != b"\0\0\0\0":
        index = (index + 1) & mask
    cells[index] = cell


def flags_in(section: bytes, name: bytes, globs: list[Automaton]) -> int:
    """Return a section's flags for a name; `globs` are the automata of its globs."""
    bits, cells, globs_at, count = layout.FUNCTION_TABLE.struct.unpack_from(section)[:4]
    value, mask = gnu_hash(name), (1 << bits) - 1
    index = (value >> 4) & mask
    while True:
        cell = layout.FUNCTION.struct.unpack_from(section, cells + index * layout.FUNCTION.size)
        known = dict(zip(layout.FUNCTION.fields, cell, strict=True))
        at = known["name"]
        if not at:
            break
        if known["hash"] == value and section[at : section.index(0, at)] == name:
            return int(known["flags"])
        index = (index + 1) & mask
    for number, pattern in zip(range(count), globs, strict=True):
        if pattern.matches(name):
            at = globs_at + number * layout.FUNCTION_GLOB.size
            return int(layout.FUNCTION_GLOB.struct.unpack_from(section, at)[1])
    return 0


def _wanted(
    function: Known, pool: _Pool, *, arguments: bool, exits: bool
) -> tuple[int, int, int, int]:
    """Return flags, entry program, exit program and exit words of one function."""
    flags = function.flags
    if not arguments or flags & layout.FN_NEVER:
        return flags, 0, 0, 0
    if function.programs is None:
        # A special function without a declaration is printed as unknown ones are.
        return flags | layout.FN_SIX, 0, 0, 0
    programs = function.programs
    if exits and not flags & layout.FN_ENTRY_ONLY:
        flags |= programs.flags
        entry = pool.add(programs.at_entry) if flags & layout.FN_PROGRAM else 0
        return flags, entry, pool.add(programs.at_exit), programs.exit_words
    flags |= programs.entry_flags
    return flags, pool.add(programs.at_entry) if flags & layout.FN_PROGRAM else 0, 0, 0


class _Pool:
    """Capture programs; equal ones are stored once."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.content = bytearray()
        self.known: dict[bytes, int] = {}

    def add(self, ops: list[Op]) -> int:
        """Return the offset of the program in the section, 0 for an empty program."""
        if not ops:
            return 0
        code = b"".join(layout.OP.struct.pack(*op) for op in ops) + bytes(layout.OP.size)
        if code not in self.known:
            self.known[code] = self.start + len(self.content)
            self.content += code
        return self.known[code]

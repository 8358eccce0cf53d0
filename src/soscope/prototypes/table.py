# SPDX-License-Identifier: Apache-2.0
"""Build SEC_FUNCTIONS (wire.h), what the agent knows of functions, from prototypes/*.txt."""

from __future__ import annotations

from fnmatch import fnmatchcase

from soscope.errors import FormatError, UsageError
from soscope.prototypes import catalog
from soscope.prototypes.capture import CapturePrograms, Op
from soscope.prototypes.catalog import TREATMENT_FAMILIES
from soscope.select.patterns import Automaton, compile_bre
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# Error numbers of Linux on x86-64: their names, and glibc's texts.
#
# They are not taken from the running system, because a recording may be read on another one.

ERRNOS: dict[int, tuple[str, str]] = {
    1: ("EPERM", "Operation not permitted"),
    2: ("ENOENT", "No such file or directory"),
    3: ("ESRCH", "No such process"),
    4: ("EINTR", "Interrupted system call"),
    5: ("EIO", "Input/output error"),
    6: ("ENXIO", "No such device or address"),
    7: ("E2BIG", "Argument list too long"),
    8: ("ENOEXEC", "Exec format error"),
    9: ("EBADF", "Bad file descriptor"),
    10: ("ECHILD", "No child processes"),
    11: ("EAGAIN", "Resource temporarily unavailable"),
    12: ("ENOMEM", "Cannot allocate memory"),
    13: ("EACCES", "Permission denied"),
    14: ("EFAULT", "Bad address"),
    15: ("ENOTBLK", "Block device required"),
    16: ("EBUSY", "Device or resource busy"),
    17: ("EEXIST", "File exists"),
    18: ("EXDEV", "Invalid cross-device link"),
    19: ("ENODEV", "No such device"),
    20: ("ENOTDIR", "Not a directory"),
    21: ("EISDIR", "Is a directory"),
    22: ("EINVAL", "Invalid argument"),
    23: ("ENFILE", "Too many open files in system"),
    24: ("EMFILE", "Too many open files"),
    25: ("ENOTTY", "Inappropriate ioctl for device"),
    26: ("ETXTBSY", "Text file busy"),
    27: ("EFBIG", "File too large"),
    28: ("ENOSPC", "No space left on device"),
    29: ("ESPIPE", "Illegal seek"),
    30: ("EROFS", "Read-only file system"),
    31: ("EMLINK", "Too many links"),
    32: ("EPIPE", "Broken pipe"),
    33: ("EDOM", "Numerical argument out of domain"),
    34: ("ERANGE", "Numerical result out of range"),
    35: ("EDEADLK", "Resource deadlock avoided"),
    36: ("ENAMETOOLONG", "File name too long"),
    37: ("ENOLCK", "No locks available"),
    38: ("ENOSYS", "Function not implemented"),
    39: ("ENOTEMPTY", "Directory not empty"),
    40: ("ELOOP", "Too many levels of symbolic links"),
    42: ("ENOMSG", "No message of desired type"),
    43: ("EIDRM", "Identifier removed"),
    44: ("ECHRNG", "Channel number out of range"),
    45: ("EL2NSYNC", "Level 2 not synchronized"),
    46: ("EL3HLT", "Level 3 halted"),
    47: ("EL3RST", "Level 3 reset"),
    48: ("ELNRNG", "Link number out of range"),
    49: ("EUNATCH", "Protocol driver not attached"),
    50: ("ENOCSI", "No CSI structure available"),
    51: ("EL2HLT", "Level 2 halted"),
    52: ("EBADE", "Invalid exchange"),
    53: ("EBADR", "Invalid request descriptor"),
    54: ("EXFULL", "Exchange full"),
    55: ("ENOANO", "No anode"),
    56: ("EBADRQC", "Invalid request code"),
    57: ("EBADSLT", "Invalid slot"),
    59: ("EBFONT", "Bad font file format"),
    60: ("ENOSTR", "Device not a stream"),
    61: ("ENODATA", "No data available"),
    62: ("ETIME", "Timer expired"),
    63: ("ENOSR", "Out of streams resources"),
    64: ("ENONET", "Machine is not on the network"),
    65: ("ENOPKG", "Package not installed"),
    66: ("EREMOTE", "Object is remote"),
    67: ("ENOLINK", "Link has been severed"),
    68: ("EADV", "Advertise error"),
    69: ("ESRMNT", "Srmount error"),
    70: ("ECOMM", "Communication error on send"),
    71: ("EPROTO", "Protocol error"),
    72: ("EMULTIHOP", "Multihop attempted"),
    73: ("EDOTDOT", "RFS specific error"),
    74: ("EBADMSG", "Bad message"),
    75: ("EOVERFLOW", "Value too large for defined data type"),
    76: ("ENOTUNIQ", "Name not unique on network"),
    77: ("EBADFD", "File descriptor in bad state"),
    78: ("EREMCHG", "Remote address changed"),
    79: ("ELIBACC", "Can not access a needed shared library"),
    80: ("ELIBBAD", "Accessing a corrupted shared library"),
    81: ("ELIBSCN", ".lib section in a.out corrupted"),
    82: ("ELIBMAX", "Attempting to link in too many shared libraries"),
    83: ("ELIBEXEC", "Cannot exec a shared library directly"),
    84: ("EILSEQ", "Invalid or incomplete multibyte or wide character"),
    85: ("ERESTART", "Interrupted system call should be restarted"),
    86: ("ESTRPIPE", "Streams pipe error"),
    87: ("EUSERS", "Too many users"),
    88: ("ENOTSOCK", "Socket operation on non-socket"),
    89: ("EDESTADDRREQ", "Destination address required"),
    90: ("EMSGSIZE", "Message too long"),
    91: ("EPROTOTYPE", "Protocol wrong type for socket"),
    92: ("ENOPROTOOPT", "Protocol not available"),
    93: ("EPROTONOSUPPORT", "Protocol not supported"),
    94: ("ESOCKTNOSUPPORT", "Socket type not supported"),
    95: ("EOPNOTSUPP", "Operation not supported"),
    96: ("EPFNOSUPPORT", "Protocol family not supported"),
    97: ("EAFNOSUPPORT", "Address family not supported by protocol"),
    98: ("EADDRINUSE", "Address already in use"),
    99: ("EADDRNOTAVAIL", "Cannot assign requested address"),
    100: ("ENETDOWN", "Network is down"),
    101: ("ENETUNREACH", "Network is unreachable"),
    102: ("ENETRESET", "Network dropped connection on reset"),
    103: ("ECONNABORTED", "Software caused connection abort"),
    104: ("ECONNRESET", "Connection reset by peer"),
    105: ("ENOBUFS", "No buffer space available"),
    106: ("EISCONN", "Transport endpoint is already connected"),
    107: ("ENOTCONN", "Transport endpoint is not connected"),
    108: ("ESHUTDOWN", "Cannot send after transport endpoint shutdown"),
    109: ("ETOOMANYREFS", "Too many references: cannot splice"),
    110: ("ETIMEDOUT", "Connection timed out"),
    111: ("ECONNREFUSED", "Connection refused"),
    112: ("EHOSTDOWN", "Host is down"),
    113: ("EHOSTUNREACH", "No route to host"),
    114: ("EALREADY", "Operation already in progress"),
    115: ("EINPROGRESS", "Operation now in progress"),
    116: ("ESTALE", "Stale file handle"),
    117: ("EUCLEAN", "Structure needs cleaning"),
    118: ("ENOTNAM", "Not a XENIX named type file"),
    119: ("ENAVAIL", "No XENIX semaphores available"),
    120: ("EISNAM", "Is a named type file"),
    121: ("EREMOTEIO", "Remote I/O error"),
    122: ("EDQUOT", "Disk quota exceeded"),
    123: ("ENOMEDIUM", "No medium found"),
    124: ("EMEDIUMTYPE", "Wrong medium type"),
    125: ("ECANCELED", "Operation canceled"),
    126: ("ENOKEY", "Required key not available"),
    127: ("EKEYEXPIRED", "Key has expired"),
    128: ("EKEYREVOKED", "Key has been revoked"),
    129: ("EKEYREJECTED", "Key was rejected by service"),
    130: ("EOWNERDEAD", "Owner died"),
    131: ("ENOTRECOVERABLE", "State not recoverable"),
    132: ("ERFKILL", "Operation not possible due to RF-kill"),
    133: ("EHWPOISON", "Memory page has hardware error"),
}


# How functions fail: the results in that case, and the errors in their manuals.
#
# Most of it is in `FAILS` and `ERRNO` of a declaration. prototypes/failures.txt has the errors, and
# the results of functions whose result alone does not show that they failed.

_VALUES = {
    layout.ERROR_INT_NEGATIVE: -1,
    layout.ERROR_LONG_NEGATIVE: -1,
    layout.ERROR_NULL: 0,
    layout.ERROR_MINUS_ONE: -1,
    layout.ERROR_INT_NONZERO: -1,
    layout.ERROR_INT_ZERO: 0,
    layout.ERROR_INT_MINUS_ONE: -1,
}
_NAMED = {"NULL": 0, "EOF": -1, "0": 0, "-1": -1}
_NUMBERS = {name: number for number, (name, _) in ERRNOS.items()}
_NUMBERS |= {"EWOULDBLOCK": 11, "EDEADLOCK": 35, "ENOTSUP": 95}
_LARGEST = 4095  # largest errno

# An entry of failures.txt: a function's result ("" if its declaration has it), errors.
Listed = tuple[str, tuple[str, ...]]


def read_failures(text: str, file: str) -> dict[str, Listed]:
    """Read prototypes/failures.txt. Raises FormatError with file and line."""
    listed: dict[str, Listed] = {}
    for number, said in _entries(text):
        head, colon, errors = said.partition(":")
        names, _, value = head.partition("=")
        value = value.strip()
        if not colon or not names.split() or (value and value not in _NAMED):
            raise FormatError(f"{file}:{number}: it is not NAME… [= VALUE]: ERROR…", field="line")
        for name in names.split():
            if name in listed:
                raise FormatError(f"{file}:{number}: '{name}' is there twice", field=name)
            listed[name] = value, tuple(errors.split())
    return listed


def _entries(text: str) -> list[tuple[int, str]]:
    """Return the entries, each with the number of its first line."""
    entries: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        said = line.split("#", 1)[0]
        if said[:1].isspace() and entries:
            first, begun = entries.pop()
            entries.append((first, f"{begun} {said.strip()}"))
        elif said.strip():
            entries.append((number, said.strip()))
    return entries


class Failure:
    """How one function fails.

    `value` is its result in that case; None means the number of the error. `sets_errno` tells
    that it sets errno, too. `errors` are the names in its manual.
    """

    __slots__ = ("_enum", "errors", "name", "sets_errno", "value")

    def __init__(
        self, name: str, value: int | None, errors: tuple[str, ...], *, enum: dict[int, str] | None
    ) -> None:
        self.name = name
        self.value = value
        self.errors = errors
        self.sets_errno = value is not None
        self._enum = enum

    def number(self, error: str) -> int:
        """Return the number of an error by its name or digits. Raises UsageError."""
        if self._enum is None:
            return errno_number(error)
        for number, known in self._enum.items():
            if known == error:
                return number
        if _is_number(error) and int(error):
            return int(error)
        names = ", ".join(list(self._enum.values())[:4])
        raise UsageError(f"'{error}' is no error of {self.name}, which has its own: {names}, …")

    def outcome(self, error: str | None) -> tuple[int, int | None]:
        """Return the result and the new errno, None if it is not changed.

        If `error` is None, the first error in the manual is taken. Raises UsageError.
        """
        if error is None and self.errors:
            error = self.errors[0]
        if error is None:
            if self.value is not None and not self.sets_errno:
                return self.value, None
            raise UsageError(f"the manual of {self.name} lists no errors: error= is missing")
        number = self.number(error)
        if self.value is None:
            return number, None
        return self.value, number if self.sets_errno else None


def failure_of(
    name: str, of: catalog.FunctionRow, listed: Listed | None, enums: dict[str, dict[int, str]]
) -> Failure | None:
    """Return how a function fails, by its row and its entry in failures.txt; None if not known."""
    _, _, _, _, result, rule, where, *_ = of
    value, errors = listed or ("", ())
    if result is None or (rule not in _VALUES and not value):
        return None
    enum = None
    if where == catalog.ERRNO_NONE and result[3][0] == catalog.SHOW_ENUM:
        enum = {number: known for number, known in enums[result[3][3]].items() if number}
    if where == catalog.ERRNO_RESULT or enum is not None:
        return Failure(name, None, errors, enum=enum)
    failure = Failure(name, _NAMED[value] if value else _VALUES[rule], errors, enum=None)
    failure.sets_errno = where != catalog.ERRNO_NONE
    return failure


def result_kind(of: catalog.FunctionRow) -> str:
    """Return the kind of a result that is not in an integer register, "" for all others."""
    result = of[4]
    if result is None:
        return ""
    how = result[3][0]
    if how == catalog.SHOW_STRUCT:
        return "struct"
    if how == catalog.SHOW_COMPLEX:
        return "complex number"
    return "float" if how in (catalog.SHOW_FLOAT, catalog.SHOW_LONG_DOUBLE) else ""


def errno_number(error: str) -> int:
    """Return the number of an errno by its name or digits. Raises UsageError."""
    if error in _NUMBERS:
        return _NUMBERS[error]
    if _is_number(error) and 0 < int(error) <= _LARGEST:
        return int(error)
    from difflib import get_close_matches

    near = get_close_matches(error, _NUMBERS, n=1)
    hint = f"did you mean {near[0]}?" if near else "errno(3) lists the names"
    raise UsageError(f"'{error}' is no errno", hint=hint)


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 10


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
                raise FormatError(f"{file}:{number}: '{group}' is there twice", field=group)
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
                raise FormatError(f"{where}: '{word}' is there twice", field=word)
            self.names[word] = flag
        elif flag & layout.FN_TWICE:
            raise FormatError(f"{where}: a pattern cannot return twice", field=word)
        elif flag == layout.FN_BRIEF:
            raise FormatError(f"{where}: a pattern cannot be brief", field=word)
        else:
            self.globs.setdefault(flag, []).append(word)


# Build SEC_FUNCTIONS: the agent's table of functions by name (wire.h).

_MIN_BITS = 4


def gnu_hash(name: bytes) -> int:
    """Return DT_GNU_HASH's hash of a symbol's name."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFF_FFFF
    return value


class Known:
    """One name for the table; `prototype` is soscope's index of it or `layout.NONE`."""

    __slots__ = ("error_rule", "flags", "name", "programs", "prototype")

    def __init__(
        self,
        name: str,
        flags: int,
        prototype: int,
        error_rule: int,
        programs: CapturePrograms | None,
    ) -> None:
        self.name = name
        self.flags = flags
        self.prototype = prototype
        self.error_rule = error_rule
        self.programs = programs


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


# Functions of the C library without a declaration, whose results are not in integer registers.
#
# Declarations cannot express a structure by value of more than 8 bytes, nor a complex number.

_STRUCTURES = ("div", "ldiv", "lldiv", "imaxdiv", "mallinfo", "mallinfo2")
_COMPLEX = (
    "cacos cacosh casin casinh catan catanh ccos ccosh cexp clog clog10 conj cpow cproj csin csinh"
    " csqrt ctan ctanh"
)
_REAL = "cabs carg cimag creal"


def _of_each_size(names: str, kind: str) -> dict[str, str]:
    return {name + size: kind for name in names.split() for size in ("", "f", "l")}


RESULT_KINDS = (
    dict.fromkeys(_STRUCTURES, "struct")
    | _of_each_size(_COMPLEX, "complex number")
    | _of_each_size(_REAL, "float")
)

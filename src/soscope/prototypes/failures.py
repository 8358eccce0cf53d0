# SPDX-License-Identifier: Apache-2.0
"""How functions fail: error numbers and their texts, results in that case, kinds of results."""

from __future__ import annotations

from soscope.errors import FormatError, UsageError
from soscope.prototypes import catalog
from soscope.wire import layout

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
                raise FormatError(f"{file}:{number}: '{name}' is defined twice", field=name)
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

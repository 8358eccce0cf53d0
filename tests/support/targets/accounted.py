# SPDX-License-Identifier: Apache-2.0
"""Programs that say what they passed and what they got, made of a table of calls.

A line of a table is `function | result | argument ; argument`. An argument is a letter and an
expression of C, `i:-12`; what is behind a pointer is read after the call; `p>name` keeps a result.
A function of C++ is called by what stands behind its name, `name = $0->name($1)`.
`!` begins a statement, `#` a line of C in front of all, `@` flags for the compiler.
"""

from __future__ import annotations

import json
import math
import re
import signal
import struct
import subprocess
from fractions import Fraction
from math import isinf, isnan
from pathlib import Path

from tests.support.targets.build import made_in
from tests.support.time.patience import limit

TABLES = Path(__file__).parents[2] / "targets" / "account"

# a call as its program tells it: function, arguments and result with their kinds, errno
Told = tuple[str, list[tuple[str, object]], tuple[str, object], int]

# how a program tells the value `{}`; the kind `_` is told by nobody
_TELLS = {
    "i": "put_signed((long)({}));",
    "p": "put_number((unsigned long)({}));",
    "u": "put_number((unsigned long)({}));",
    "d": "{{ double told_d = {}; put_bytes(&told_d, 8); }}",
    "f": "{{ float told_f = {}; put_bytes(&told_f, 4); }}",
    "L": "{{ long double told_l = {}; put_bytes(&told_l, 10); }}",
    "s": "put_string((const char *)({}));",
    "I": "put_signed(*({}));",
    "U": "put_number((unsigned long)*({}));",
    "D": "put_bytes({}, 8);",
    "F": "put_bytes({}, 4);",
    "M": "put_bytes({}, 10);",
    "S": "put_string((const char *)({}));",
    "Z": "put_string(*({}));",
}
# .. or what the expression in parentheses behind the letter is
_SETS = {
    "w": "put_wide({});",
    "x": "put_signals({});",
    "e": "put_descriptors({});",
    "k": "put_signed({});",  # a structure's `fd`
}
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?')
_NUMBERS = re.compile(r"(?<![\w.])-?[0-9][\w.+-]*")
_NAMED = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "\\": 92, '"': 34}


class Line:
    """One line of a table: the function, the kind of its result, its arguments."""

    def __init__(self, text: str) -> None:
        self.name, result, rest = (part.strip() for part in text.split(" |", 2))
        self.name, _, self.call = (part.strip() for part in self.name.partition(" = "))
        self.result, _, self.kept = result.partition(">")  # the variable that keeps it
        words = [word.strip() for word in rest.split(" ; ")] if rest else []
        self.arguments = [word.partition(":")[::2] for word in words]

    def code(self, auto: str) -> str:
        """Return the call and what is told of it; `auto` is how the language writes any type."""
        lines = ["\t{"]
        names = []
        for number, (kind, expression) in enumerate(self.arguments):
            if kind in ("L", "f", "d"):
                of = {"L": "long double", "f": "float", "d": "double"}[kind]
                lines.append(f"\t\t{of} a{number} = {expression};")
            else:
                lines.append(f"\t\t{auto} a{number} = {expression};")
            names.append(f"a{number}")
        call = f"{self.name}({', '.join(names)})"
        if self.call:
            call = self.call.replace("$", "a")
        lines.append("\t\terrno = 0;")
        lines.append(f"\t\t{call};" if self.result == "v" else f"\t\t{auto} r = {call};")
        lines.append("\t\tint failed = errno;")
        if self.kept:
            lines.append(f"\t\t{self.kept} = r;")
        lines.append(f'\t\tput("[\\"{self.name}\\"");')
        for number, (kind, _) in enumerate(self.arguments):
            lines.append(_told(kind, f"a{number}"))
        lines.append(_told(self.result, "r"))
        lines.append('\t\tput(","); put_signed(failed); put("]\\n");')
        lines.append("\t}")
        return "\n".join(lines)


def _told(kind: str, of: str) -> str:
    tell = 'put("null");'
    if kind[0] in _SETS:
        tell = _SETS[kind[0]].format(kind[1:].strip("()") or of)
    elif kind[0] == "B":  # bytes, as many as the expression behind the letter says
        tell = f"put_bytes({of}, {kind[1:]});"
    elif kind[0] == "q":  # the numbers of a structure
        words = kind[2:-1].split(",") if kind[2:-1] else []
        parts = [f"{{ double told_q = {word}; put_bytes(&told_q, 8); }}" for word in words]
        tell = ' put(","); '.join(parts)
        return f'\t\tput(",[\\"q\\",["); {tell} put("]]");'
    elif kind[0] in _TELLS:
        tell = _TELLS[kind[0]].format(of)
    return f'\t\tput(",[\\"{kind[0]}\\","); {tell} put("]");'


def tables() -> list[str]:
    """Return the names of all tables."""
    return sorted(path.stem for path in TABLES.glob("*.calls"))


def is_cxx(name: str) -> bool:
    """Return whether a table's functions are of C++."""
    return (TABLES / f"lib{name}.cc").exists()


def defined(library: Path) -> list[str]:
    """Return the symbols that a library defines, as they are linked."""
    command = ["nm", "-D", "--defined-only", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit())
    return [line.split()[-1] for line in done.stdout.splitlines()]


def plain(symbols: list[str]) -> list[str]:
    """Return the names of functions without what they take, by the binary utilities."""
    done = subprocess.run(
        ["c++filt", "-p"],
        input="\n".join(symbols),
        capture_output=True,
        text=True,
        check=True,
        timeout=limit(),
    )
    return [name.partition("[abi:")[0] for name in done.stdout.splitlines()]


def read(name: str) -> tuple[list[Line], str, list[str]]:
    """Return the calls of a table, the program as C, and flags of the compiler."""
    lines: list[Line] = []
    before: list[str] = []
    body: list[str] = []
    flags: list[str] = []
    for text in (TABLES / f"{name}.calls").read_text().splitlines():
        if text.startswith("#"):
            before.append(text.removeprefix("#C "))
        elif text.startswith("@"):
            flags += text[1:].split()
        elif text.startswith("!"):
            body.append(f"\t{text[1:].strip()}")
        elif text.strip() and not text.startswith("//"):
            lines.append(Line(text))
            body.append(lines[-1].code("auto" if is_cxx(name) else "__auto_type"))
    code = "\n".join(
        [
            "#define _GNU_SOURCE",
            "#include <errno.h>",
            *before,
            '#include "account.h"',
            "int main(int count, char **words)",
            "{",
            *body,
            "\tput_all(words[count - 1]);",
            "\treturn 0;",
            "}",
        ]
    )
    return lines, code, flags


def build(name: str, directory: Path, *flags: str) -> Path:
    """Build the program of a table."""
    _, code, own = read(name)
    compiler, ending = ("g++", "cc") if is_cxx(name) else ("gcc", "c")
    source = directory / f"{name}.{ending}"
    source.write_text(code)
    command = [compiler, "-w", "-O0", "-fno-builtin", f"-I{TABLES}", *flags, str(source)]
    if is_cxx(name):
        command.append("-fpermissive")
    if (TABLES / f"lib{name}.{ending}").exists():
        library = f"lib{name}.so"
        machine = [flag for flag in own if flag.startswith("-m")]
        words = [compiler, "-g", "-O1", "-shared", "-fPIC", *machine]
        made_in(directory, *words, TABLES / f"lib{name}.{ending}", "-o", library)
        own = [library, "-Wl,-rpath,$ORIGIN", *own]
    made_in(directory, *command, "-o", name, *own)
    return directory / name


def account(path: Path) -> list[Told]:
    """Return what a program has told: function, arguments, result, errno."""
    told = []
    for line in path.read_text().splitlines():
        name, *arguments, result, errno = json.loads(line)
        told.append((name, [(kind, value) for kind, value in arguments], tuple(result), errno))
    return told


def agrees(kind: str, value: object, text: str) -> bool:
    """Return whether what a tracer shows as `text` is the value that the program told."""
    if kind in "_v":
        return True
    text = text.rpartition(" => ")[2]
    if value is None:
        return text in ("nil", "NULL", "0")
    if kind in "IUDFM":
        text = text.strip("[]")
    if kind == "Z":  # a string whose address is there
        return text[:1] + text[-1:] == "[]" and bytes_of(text[1:-1]) == bytes.fromhex(str(value))
    if kind == "q":
        numbers = _NUMBERS.findall(text)
        told = [bytes.fromhex(number) for number in value] if isinstance(value, list) else []
        return len(numbers) == len(told) and all(map(_same_float, told, numbers))
    if kind in "sSB":
        return bytes_of(text) == bytes.fromhex(str(value))
    if kind in _SETS:
        return _has(kind, value, text)
    if kind in "iupIU":
        return _number(text) == value or _named(text, int(str(value)))
    data = bytes.fromhex(str(value))
    return _same_float(data, text)


def _has(kind: str, value: object, text: str) -> bool:
    """Return whether a wide string, a set or a structure is shown as it was told."""
    if kind == "w":
        return wide_of(text) == bytes.fromhex(str(value))
    if kind == "k":
        return re.findall(r"\bfd=(-?\d+)", text) == [str(value)]
    match = re.search(r"(~?)\[([^\]]*)\]", text)
    if match is None or not isinstance(value, list):
        return False
    members = {_signal(name) if kind == "x" else int(name) for name in match[2].split()}
    if match[1]:
        members = set(range(1, 65)) - members
    return members == set(value[1:])


def _signal(name: str) -> int:
    if name.startswith("R"):
        return 32 + int(name.partition("_")[2] or 0)
    return int(signal.Signals[f"SIG{name}"])


def wide_of(text: str) -> bytes | None:
    """Return the characters of a wide literal of C, 4 bytes each, None where it is none."""
    match = _STRING.fullmatch(text.removeprefix("L"))
    if match is None or match.group(2) or text[:1] != "L":
        return None
    inner = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), match.group(1))
    inner = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), inner)
    inner = re.sub(r"\\(.)", lambda found: chr(_NAMED[found[1]]), inner)
    return inner.encode("utf-32-le")


def _same_float(data: bytes, text: str) -> bool:
    try:
        shown = float(int(text, 16) if text[:2] == "0x" else text)
    except ValueError:
        return False
    if len(data) == 4:
        return _bits(struct.pack("<f", shown)) == _bits(data)
    if len(data) == 8:
        return _bits(struct.pack("<d", shown)) == _bits(data)
    return _is_long_double(data, shown, text)


def _is_long_double(data: bytes, shown: float, text: str) -> bool:
    """Return whether no other number of 64 bits is nearer to `text`."""
    low, high = struct.unpack("<QH", data)
    exponent = high & 0x7FFF
    if exponent == 0x7FFF:
        return isnan(shown) if low << 1 & 0xFFFF_FFFF_FFFF_FFFF else isinf(shown)
    if (text[0] == "-") != bool(high & 0x8000):
        return False
    unit = Fraction(2) ** (max(exponent, 1) - 16383 - 63)
    return bool(abs(abs(Fraction(text)) / unit - low) * 2 < 1)


def _bits(data: bytes) -> bytes:
    """Return the number's bytes; one NaN is as good as another."""
    form = "<f" if len(data) == 4 else "<d"
    (value,) = struct.unpack(form, data)
    return b"NaN" if math.isnan(value) else data


def _number(text: str) -> int | None:
    text = text.removeprefix("L") if text.startswith("L'") else text
    if len(text) > 2 and text[0] == text[-1] == "'":
        inner = text[1:-1]
        if len(inner) == 1:
            return ord(inner)
        if inner[1:].isdigit() or inner == r"\0":
            return int(inner[1:], 8)
        return {**_NAMED, "'": 39}.get(inner[1:])
    try:
        octal = len(text) > 1 and text[0] == "0" and text.isdigit()
        return int(text, 8 if octal else 0)
    except ValueError:
        return {"nil": 0, "true": 1, "false": 0}.get(text)


def _named(text: str, value: int) -> bool:
    """Return whether names stand for a number; which number is asked of the headers elsewhere."""
    del value
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]+(\|([A-Z0-9_]+|0x[0-9a-f]+))*", text) is not None


def bytes_of(text: str) -> bytes | None:
    """Return the bytes of a literal of C, None where it is none, or not whole."""
    match = _STRING.fullmatch(text)
    if match is None or match.group(2):
        return None
    out = bytearray()
    inner, at = match.group(1), 0
    while at < len(inner):
        if inner[at] != "\\":
            out += inner[at].encode()
            at += 1
        elif inner[at + 1].isdigit():
            out.append(int(inner[at + 1 : at + 4], 8))
            at += 4
        else:
            out.append(_NAMED[inner[at + 1]])
            at += 2
    return bytes(out)

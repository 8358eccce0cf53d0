#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what the headers of native/include/soscope say into the Python and text files beside them.

    python scripts/wire.py [--check]

Every constant and struct of the headers goes into wire/layout.py and wire/headers.py, as a C
compiler sees it. The functions of family.h go into wire/layout.py, into the sets of prototypes/
and into the manual of `mem run`. `--check` compares with the files in place of writing them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
INCLUDE = HERE / "native/include"
WIDTH = 100
START = "# ---- written by scripts/wire.py ----\n"
# Which headers a file mirrors.
FILES = {
    "src/soscope/wire/layout.py": ("wire", "blocks"),
    "src/soscope/wire/headers.py": ("objects", "prof", "tally"),
}
# Lists of family.h, and their names in Python.
FAMILY = {
    "ALLOCATORS": "functions that make a block",
    "FREES": "functions that only free a block",
    "MAPPINGS": "functions that make, move or remove mappings",
}
CODES = {"uint16_t": "H", "uint32_t": "I", "int32_t": "i", "uint64_t": "Q", "int64_t": "q"}
CODE_SIZES = {"B": 1, "H": 2, "I": 4, "i": 4, "Q": 8, "q": 8, "s": 1}
PARTS = re.compile(
    r"^#define SOSC_(?P<constant>\w+) (?P<value>[^\n]*)$"
    r"|^enum ?(?P<enum>\w*) ?\{(?P<constants>.*?)\};"
    r"|^struct (?P<struct>\w+) \{(?P<fields>.*?)^\};",
    re.MULTILINE | re.DOTALL,
)


def compiled(*words: str, text: str) -> str:
    """Return what the compiler prints for a C file with the given text."""
    command = [os.environ.get("CC", "cc"), "-I", str(INCLUDE), "-x", "c", *words, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def includes(headers: tuple[str, ...]) -> str:
    """Return the lines that include headers."""
    return "".join(f"#include <soscope/{header}.h>\n" for header in headers)


def printed(headers: tuple[str, ...], expressions: list[str]) -> dict[str, int]:
    """Return the value of each C expression."""
    lines = "".join(f"(unsigned long long)({each}),\n" for each in expressions)
    text = (
        f"#include <stdio.h>\n#include <stddef.h>\n{includes(headers)}"
        f"static const unsigned long long values[] = {{\n{lines}}};\nint main(void)\n{{\n"
        "for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)\n"
        'printf("%llu\\n", values[i]);\nreturn 0;\n}\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "print"
        compiled("-o", str(program), text=text)
        values = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return dict(zip(expressions, map(int, values.split()), strict=True))


def fields_of(body: str) -> list[tuple[str, str, bool]]:
    """Return the fields of a struct: name, C type, whether it is an array."""
    rows = []
    for declaration in filter(str.strip, body.split(";")):
        *words, name = declaration.partition("[")[0].split()
        rows.append((name, " ".join(words), "[" in declaration))
    return rows


def spec_of(name: str, fields: list[tuple[str, str, bool]], values: dict[str, int]) -> str:
    """Return the fields of a struct as `Layout` takes them."""
    words = []
    for field, kind, is_array in fields:
        small = "s" if is_array or kind == "char" else "B"
        code = small if kind in {"uint8_t", "char"} else CODES.get(kind, "Q")
        count = values[f"sizeof(((struct {name} *)0)->{field})"] // CODE_SIZES[code]
        words.append(f"{field}:{count if count > 1 or code == 's' else ''}{code}")
    return " ".join(words)


def constant(name: str, spelled: str, value: int) -> str:
    """Return the line of a constant, in hexadecimal if the header has it so or it is large."""
    is_hex = spelled.strip().startswith("0x") or value > 1 << 40
    return f"{name} = 0x{value:X}\n" if is_hex else f"{name} = {value}\n"


def quoted(text: str) -> str:
    """Return text as strings in lines, one behind the other."""
    lines = textwrap.wrap(
        text, WIDTH - 7
    )  # the last one ends with a comma, the others with a blank
    return "\n".join(
        f'    "{line} "' if number < len(lines) else f'    "{line}"'
        for number, line in enumerate(lines, 1)
    )


def listed(name: str, words: list[str]) -> str:
    """Return the lines of a list of words."""
    if len(line := f'{name} = "{" ".join(words)}".split()\n') <= WIDTH + 1:
        return line
    return f"{name} = (\n{quoted(' '.join(words))}\n).split()\n"


def struct(name: str, spec: str) -> str:
    """Return the lines of a struct, as the formatter leaves them."""
    upper = name.removeprefix("sosc_").upper()
    if len(line := f'{upper} = Layout("{name}", "{spec}")\n') <= WIDTH + 1:
        return line
    if len(line := f'    "{name}", "{spec}"\n') <= WIDTH + 1:
        return f"{upper} = Layout(\n{line})\n"
    return f'{upper} = Layout(\n    "{name}",\n{quoted(spec)},\n)\n'


def mirror(headers: tuple[str, ...]) -> str:
    """Return the Python text that mirrors headers."""
    source = compiled("-E", "-P", "-dD", text=includes(headers))
    parts = [part for part in PARTS.finditer(source) if "SOSC_" in part[0] or part["struct"]]
    parts = [part for part in parts if not part["struct"] or part["struct"].startswith("sosc_")]
    wanted = []
    for part in parts:
        if part["struct"]:
            wanted += [
                f"sizeof(((struct {part['struct']} *)0)->{field})"
                for field, _, _ in fields_of(part["fields"])
            ]
        elif part["constant"]:
            wanted.append(f"SOSC_{part['constant']}")
        else:
            wanted += re.findall(r"(SOSC_\w+)\s*=", part["constants"])
    values = printed(headers, wanted)
    texts = []
    for part in parts:
        if part["struct"]:
            fields = fields_of(part["fields"])
            texts.append(struct(part["struct"], spec_of(part["struct"], fields, values)))
        elif part["constant"]:
            name = part["constant"]
            texts.append(constant(name, part["value"], values[f"SOSC_{name}"]))
        else:
            rows = re.findall(r"SOSC_(\w+)\s*=\s*([^,]*)", part["constants"])
            lines = [constant(name, spelled, values[f"SOSC_{name}"]) for name, spelled in rows]
            title = f"\n# enum {part['enum']}\n" if part["enum"] else "\n"
            texts.append(f"{title}{''.join(lines)}\n")
    return re.sub(r"\n{3,}", "\n\n", "".join(texts)).strip() + "\n"


def family(which: str) -> list[str]:
    """Return the names of one list of family.h."""
    text = f"#include <soscope/family.h>\n#define ROW(name, ...) <name>\nSOSC_FAMILY_{which}(ROW)\n"
    return re.findall(r"<(\w+)>", compiled("-E", "-P", text=text))


def replaced(text: str, before: str, told: str, after: str) -> str:
    """Return the text with `told` between the first `before` and what `after` matches."""
    head, found, rest = text.partition(before)
    end = re.search(after, rest)
    if not found or not end:
        raise SystemExit(f"{before!r} is not there, or nothing ends it")
    return head + before + told + rest[end.start() :]


def written() -> dict[str, str]:
    """Return the whole text of each file."""
    names = {which: family(which) for which in FAMILY}
    texts = {}
    for path, headers in FILES.items():
        told = mirror(headers)
        if "blocks" in headers:
            told += "\n# The malloc family (family.h).\n"
            for which, meaning in FAMILY.items():
                told += f"# {meaning}\n{listed(which, names[which])}"
        head = (HERE / path).read_text().partition(START)[0]
        texts[path] = head + START + told
    blocks = " ".join(names["ALLOCATORS"] + names["FREES"])
    for path, before, after in (
        ("prototypes/groups.txt", "\nmem ", r"\n    malloc_usable_size"),
        ("prototypes/families.txt", "\nlibc but _* ", r"\n    malloc_usable_size"),
    ):
        lines = textwrap.wrap(before.strip() + " " + blocks, WIDTH, subsequent_indent="    ")
        told = "\n".join(lines).removeprefix(before.strip() + " ")
        texts[path] = replaced((HERE / path).read_text(), before, told, after)
    page = "docs/cli/soscope-mem-run.md"
    before = "Native blocks are made by calls, from any image, of "
    told = f"{before}{', '.join(names['ALLOCATORS'])}, and C++ operator new in all its forms."
    told = textwrap.fill(told, WIDTH).removeprefix(before)
    texts[page] = replaced((HERE / page).read_text(), before, told, r"\nMappings are made by")
    return texts


def main() -> int:
    """Write the files, or compare them; return 0."""
    told = written()
    wrong = [path for path, text in told.items() if (HERE / path).read_text() != text]
    if "--check" not in sys.argv:
        for path in wrong:
            (HERE / path).write_text(told[path])
        return 0
    if wrong:
        sys.exit(f"not what scripts/wire.py writes: {', '.join(wrong)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

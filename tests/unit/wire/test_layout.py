# SPDX-License-Identifier: Apache-2.0
"""The Python mirror of wire.h says what the compiler says."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from soscope.model import call, image
from soscope.wire import headers, layout
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.build import made_in
from tests.support.time.patience import limit

MIRROR = {**vars(layout), **vars(headers)}
REPOSITORY = Path(__file__).parents[3]
INCLUDE = REPOSITORY / "native" / "include"
CODES = {
    "uint8_t": "B",
    "uint16_t": "H",
    "uint32_t": "I",
    "int32_t": "i",
    "uint64_t": "Q",
    "int64_t": "q",
    "struct sosc_range": "Q",
    "struct sosc_plan": "Q",
    "struct sosc_prof_cost": "Q",
    "struct sosc_exec": "Q",
}

STRINGS = {("s", "uint8_t"), ("s", "char")}


HEADERS = ("wire", "blocks", "objects", "prof", "tally")
INCLUDES = "".join(f"#include <soscope/{name}.h>\n" for name in HEADERS)


def _compiler() -> str:
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None) or need("gcc")


@cache
def _preprocessed() -> str:
    """Return the text of all headers without comments, with the lists of family.h filled in."""
    command = [_compiler(), "-E", "-P", "-dD", "-I", str(INCLUDE), "-x", "c", "-"]
    text = subprocess.run(
        command, input=INCLUDES, check=True, timeout=limit(10), capture_output=True, text=True
    ).stdout
    return re.sub(r"^#define \w+\(.*\n", "", text, flags=re.MULTILINE)


def _constants(text: str) -> list[str]:
    names = re.findall(r"^#define (SOSC_\w+) ", text, re.MULTILINE)
    for body in re.findall(r"enum\s*\w*\s*\{(.*?)\}", text, re.DOTALL):
        names += re.findall(r"(SOSC_\w+)\s*=", body)
    return names


def _structs(text: str) -> dict[str, list[tuple[str, str]]]:
    """Find struct names and their fields as (C type, name)."""
    structs = {}
    for name, body in re.findall(r"struct (sosc_\w+)\s*\{(.*?)\n\};", text, re.DOTALL):
        fields = [re.sub(r"\[.*", "", field).split() for field in body.split(";") if field.strip()]
        structs[name] = [(" ".join(words[:-1]), words[-1]) for words in fields]
    return structs


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Compile a program against wire.h that prints every number in it."""
    text = _preprocessed()
    lines = [f'P("{name}", {name});' for name in _constants(text)]
    for name, fields in _structs(text).items():
        lines.append(f'P("{name}", sizeof(struct {name}));')
        for _, field in fields:
            lines.append(f'P("{name}.{field}", offsetof(struct {name}, {field}));')
            lines.append(f'P("{name}.{field}.size", sizeof((({"struct " + name} *)0)->{field}));')
    directory = tmp_path_factory.mktemp("wire")
    source = directory / "print.c"
    source.write_text(
        f"{INCLUDES}#include <stdio.h>\n"
        '#define P(name, value) printf("%s %llu\\n", name, (unsigned long long)(value))\n'
        "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    )
    program = directory / "print"
    made_in(directory, _compiler(), "-I", INCLUDE, "-o", program, source)
    printed = subprocess.run(
        [program], check=True, timeout=limit(10), capture_output=True, text=True
    )
    rows = (line.split() for line in printed.stdout.splitlines())
    return {name: int(value) for name, value in rows}


def test_wire_h_is_read_completely() -> None:
    text = _preprocessed()
    mentioned = set(re.findall(r"\bSOSC_\w+", text))
    assert mentioned == set(_constants(text))
    assert len(_structs(text)) == len(re.findall(r"struct\s+sosc_\w+\s*\{", text))
    assert len(_structs(text)["sosc_control"]) == text.split("struct sosc_control {")[1].split(
        "\n};"
    )[0].count(";")


def test_the_mirror_is_what_the_script_writes() -> None:
    done = run([sys.executable, REPOSITORY / "scripts/wire.py", "--check"])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_lists_of_the_malloc_family_hold_each_member_once() -> None:
    names = [*layout.ALLOCATORS, *layout.FREES, *layout.MAPPINGS]
    assert sorted(set(names)) == sorted(names)
    rows = re.findall(r"ROW\((\w+)", (INCLUDE / "soscope" / "family.h").read_text())
    assert set(names) <= set(rows)
    assert len(names) >= 19


def test_every_constant_has_its_value(compiled: dict[str, int]) -> None:
    expected = {name: compiled[name] for name in _constants(_preprocessed())}
    found = {name: MIRROR.get(name.removeprefix("SOSC_")) for name in expected}
    assert found == expected


def test_python_has_no_constant_of_its_own() -> None:
    names = {f"SOSC_{name}" for name, value in MIRROR.items() if type(value) is int}
    assert names == set(_constants(_preprocessed()))


def test_every_struct_has_its_layout(compiled: dict[str, int]) -> None:
    for name, fields in _structs(_preprocessed()).items():
        mirror = MIRROR[name.removeprefix("sosc_").upper()]
        assert mirror.name == name
        assert mirror.size == mirror.struct.size == compiled[name]
        assert list(mirror.fields) == [field for _, field in fields], name
        for kind, field in fields:
            offset, size, code = mirror.fields[field]
            where = f"{name}.{field}"
            assert (offset, size) == (compiled[where], compiled[f"{where}.size"]), where
            assert (code, kind) in STRINGS or code == CODES[kind], where


def test_python_has_no_struct_of_its_own() -> None:
    names = {value.name for value in MIRROR.values() if isinstance(value, layout.Layout)}
    assert names == set(_structs(_preprocessed()))


@pytest.mark.parametrize(
    ("module", "prefixes"),
    [
        (image, ("IMAGE_",)),
        (image, ("SLOT_", "HOOKED", "REFUSED_", "ERROR_")),
        (call, ("DATA_",)),
    ],
)
def test_the_model_uses_the_same_values(module: object, prefixes: tuple[str, ...]) -> None:
    names = [
        name
        for name, value in vars(module).items()
        if name.startswith(prefixes) and type(value) is int
    ]
    assert names
    assert [getattr(module, name) for name in names] == [getattr(layout, name) for name in names]


def test_padding_follows_the_c_rules() -> None:
    odd = layout.Layout("odd", "a:B b:Q c:3H")
    assert odd.fields == {"a": (0, 1, "B"), "b": (8, 8, "Q"), "c": (16, 6, "H")}
    assert odd.size == odd.struct.size == 24
    assert odd.struct.unpack(struct.pack("<B7xQ3H2x", 1, 2, 3, 4, 5)) == (1, 2, 3, 4, 5)

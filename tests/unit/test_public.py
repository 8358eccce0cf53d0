# SPDX-License-Identifier: Apache-2.0
"""The names of `soscope`: what a type checker sees is what is loaded."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import soscope


def test_every_public_name_is_what_a_type_checker_sees() -> None:
    tree = ast.parse(Path(soscope.__file__).read_text())
    seen = {
        (name.asname or name.name): f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("soscope")
        for name in node.names
    }
    assert set(soscope.__all__) - {"__version__"} == set(seen)
    for name, place in seen.items():
        thing = getattr(soscope, name)
        if isinstance(thing, ModuleType):
            assert thing.__name__ == place
        else:
            assert f"{thing.__module__}.{thing.__qualname__}" == place


def test_the_names_are_listed() -> None:
    assert set(soscope.__all__) <= set(dir(soscope))

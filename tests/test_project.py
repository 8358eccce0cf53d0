# SPDX-License-Identifier: Apache-2.0
"""The promises that the repository makes about itself: style, layers, documentation."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import import_module, metadata
from pathlib import Path

import pytest

import soscope
from soscope.verbs.main import VERBS, module_name
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.time.patience import limit

REPOSITORY = Path(__file__).parents[1]
NOT_OURS = {".git", ".venv", "build", "dist", "_agent", "__pycache__", ".hypothesis"}
TOO_LONG = 1000


def files(*suffixes: str, under: tuple[str, ...] = (".",)) -> list[Path]:
    """Find the project's own files with one of these endings."""
    found = []
    for folder in under:
        for place, folders, names in os.walk(REPOSITORY / folder):
            folders[:] = [name for name in folders if name not in NOT_OURS and "_cache" not in name]
            found += [Path(place, name) for name in names if name.endswith(suffixes)]
    assert found
    return sorted(found)


def names(paths: Iterable[Path]) -> list[str]:
    return sorted(str(path.relative_to(REPOSITORY)) for path in paths)


def tool(name: str) -> str:
    """Find a tool beside the interpreter that runs the tests."""
    return need(str(Path(sys.executable).with_name(name)))


def check(*words: str) -> None:
    done = run(words, cwd=REPOSITORY, timeout=limit(280))
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing() -> None:
    check(tool("ruff"), "check", "--no-cache", ".")


def test_python_is_formatted() -> None:
    check(tool("ruff"), "format", "--no-cache", "--check", ".")


@pytest.mark.long
def test_types_are_right() -> None:
    check(tool("mypy"), "--python-executable", sys.executable)


def test_imports_point_down() -> None:
    check(tool("lint-imports"), "--no-cache")


def test_c_is_formatted() -> None:
    sources = files(".c", ".h", ".cc", ".hh", under=("native", "tests"))
    words = [tool("clang-format"), "--dry-run", *map(str, sources)]
    said = run(words, cwd=REPOSITORY, timeout=limit(120)).stderr
    # "make format" puts it right
    faulty = {line.partition(":")[0] for line in said.splitlines() if "-Wclang" in line}
    assert not names(map(Path, faulty))


def test_no_file_is_too_long() -> None:
    sources = files(".py", ".c", ".h", ".S", ".cc", ".hh", ".sh", ".lds")
    # declarations are a table: a line for each function of one library
    sources = [path for path in sources if path.parent.name != "prototypes" or path.suffix != ".h"]
    lengths = {path: len(path.read_text().splitlines()) for path in sources}
    assert not names(path for path, lines in lengths.items() if lines > TOO_LONG)


# What may be short: faces of the package, and folders that hold a file for each verb, format or
# machine, however little there is to say of one.
MAY_BE_SHORT = {
    "__init__.py": "says what a package is",
    "__main__.py": "`python -m soscope`",
    "mem.py": "soscope_mem by another name",
    "prof.py": "soscope_prof by another name",
    "binfmt/isa/": "a folder for each machine",
    "entry/native/isa/": "a file for each machine",
    "export/": "a file for each format",
    "inspect/audit/isa/": "a file for each machine",
    "report/": "a file for each verb",
    "verbs/": "a file for each verb",
}
TOO_SHORT = 80


def test_no_module_is_a_paragraph() -> None:
    package = REPOSITORY / "src" / "soscope"
    short = set()
    for path in files(".py", under=("src/soscope",)):
        place = str(path.relative_to(package))
        may = path.name == "__init__.py" or any(
            place == name or (name.endswith("/") and place.startswith(name))
            for name in MAY_BE_SHORT
        )
        if not may and len(path.read_text().splitlines()) < TOO_SHORT:
            short.add(place)
    assert not short


def test_every_source_names_its_licence() -> None:
    sources = files(".py", ".c", ".h", ".S", ".cc", ".hh", ".sh")
    heads = {path: path.read_text().splitlines()[:3] for path in sources}
    assert not names(path for path, head in heads.items() if "SPDX" not in " ".join(head))


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["version"] == soscope.__version__ == metadata.version("soscope")


def test_the_command_is_the_entry_point() -> None:
    (entry,) = metadata.entry_points(group="console_scripts", name="soscope")
    assert entry.value == "soscope.verbs.main:start"
    assert callable(entry.load())


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_documented(verb: str) -> None:
    options = import_module(f"soscope.verbs.{module_name(verb)}").VERB.options
    page = (REPOSITORY / "docs" / "cli" / f"soscope-{verb.replace(' ', '-')}.md").read_text()
    listed = re.search(r"^## OPTIONS$(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    assert listed is not None
    documented = set()
    for line in re.findall(r"^(`-.*)$", listed[1], re.MULTILINE):
        documented |= {word.split()[0] for word in re.findall(r"`(-[^`]*)`", line)}
    known = {"-h", "--help", *(flag for option in options for flag in option.flags)}
    repeated = {"-tt", "-ttt"}  # -t, said twice and three times
    assert documented - repeated == known


def test_every_verb_has_a_page() -> None:
    pages = {path.stem.removeprefix("soscope-") for path in (REPOSITORY / "docs/cli").iterdir()}
    assert pages == {verb.replace(" ", "-") for verb in VERBS}


def slugs() -> set[str]:
    """Collect the slugs of all errors that the sources can raise."""
    found = set()
    for path in files(".py", under=("src",)):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "slug" in text else ():
            is_keyword = isinstance(node, ast.keyword) and node.arg == "slug"
            is_class_attribute = isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "slug" for target in node.targets
            )
            value = getattr(node, "value", None) if is_keyword or is_class_attribute else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.add(value.value)
    return found


def test_every_error_is_documented() -> None:
    page = (REPOSITORY / "docs" / "reference" / "errors.md").read_text()
    documented = set(re.findall(r"^## ([a-z-]+)$", page, re.MULTILINE))
    assert documented == slugs()


def test_every_block_of_a_recording_is_documented() -> None:
    from soscope.recording import format as form

    page = (REPOSITORY / "docs" / "reference" / "recording.md").read_text()
    names = [name for name, value in vars(form).items() if name.isupper() and type(value) is int]
    others = {"MAGIC", "MAX_LENGTH", "HEADS", "REWRITTEN"}
    types = {name: getattr(form, name) for name in names if name not in others}
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", page, re.MULTILINE))
    assert {name: int(number) for name, number in documented.items()} == types


@pytest.mark.parametrize("page", files(".md"), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_glossary_leads_to_files_and_has_each_word_once() -> None:
    page = (REPOSITORY / "docs" / "reference" / "glossary.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    words = [
        word
        for row in rows
        for word in row[0].removeprefix("| ").split(", ")
        if word not in {"word", "---"}
    ]
    assert sorted(words) == sorted(set(words))
    assert len(words) > 50
    folders = [REPOSITORY / name for name in ("src/soscope", "native/agent", "native/include")]
    missing = {
        path
        for row in rows
        for path in re.findall(r"`([^`]+)`", row[-1])
        if not any((folder / path).is_file() for folder in folders)
    }
    assert not missing


def test_every_make_target_is_in_the_help() -> None:
    text = (REPOSITORY / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    listed = run(["make", "help"], cwd=REPOSITORY).stdout
    for target in phony[1].split():
        assert target.startswith("setup-") or f"make {target} " in listed

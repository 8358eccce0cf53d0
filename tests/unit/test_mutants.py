# SPDX-License-Identifier: Apache-2.0
"""What the mutator changes, what it leaves alone, and which tests it takes first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.mutants import by_name, nearest_first, numbers, read_log
from tests.support.mutations.changes import Change, c_changes, python_changes
from tests.support.mutations.drawing import changed, draw, users


def lines(source: str, changes: Iterable[Change]) -> set[str]:
    """Return what stands in the line of each change afterwards."""
    made = {(changed(source, *change[2:]), change.line) for change in changes}
    return {text.splitlines()[line - 1].strip() for text, line in made}


_MODULE = '''\
LIMIT = 3


class Äpfel:
    """Not 1."""

    def take(self, most: int | None = None) -> tuple[int, ...]:
        """Not 2 < 3."""
        assert most != 4
        if not isinstance(most, int | str) and (
            most
        ) < LIMIT:  # < 5
            return "ä<" + f"{most + 6}", self.of[1:most]
        for one in "é", min(most, 0x0F):
            self.seen(one)
            most -= one
            continue
        return False
'''


def test_one_thing_of_a_function_is_changed() -> None:
    changes = python_changes(_MODULE)
    assert {change.function for change in changes} == {"Äpfel.take"}
    assert lines(_MODULE, changes) == {
        "if isinstance(most, int | str) and (",
        "if not isinstance(most, int | str) or (",
        "if True:  # < 5",
        "if False:  # < 5",
        ") <= LIMIT:  # < 5",
        "return None",
        'return "ä<" + f"{most + 6}", self.of[2:most]',
        'return "ä<" + f"{most + 6}", self.of[1:(most) + 1]',
        'for one in "é", max(most, 0x0F):',
        'for one in "é", min(most, 0x10):',
        "pass",
        "most += one",
        "break",
        "return True",
    }
    for change in changes:
        compile(changed(_MODULE, *change[2:]), "made", "exec")


def test_a_nested_function_has_its_qualified_name() -> None:
    source = "class A:\n def b(self):\n  def c():\n   return x\n  return c\n"
    names = {change.line: change.function for change in python_changes(source)}
    assert names == {4: "A.b.<locals>.c", 5: "A.b"}


_AGENT = """\
#define TWICE(x) \\
	((x) + 2)
enum { MOST = 1 };

/* kept(0) */
static uint32_t *take(const struct sosc_thread *thread,
				uint32_t most)
{
	char text[32];

	if (!thread || most->left < '<') { // 1 < 2
		say("1 < 2", most);
		return NULL;
	}
	__asm__ volatile("pause" : : "r"(1 + 1));
	while (most++)
		most->left -= 0x0f;
	return find(most);
}
"""


def test_one_thing_of_a_c_function_is_changed() -> None:
    changes = c_changes(_AGENT)
    assert {change.function for change in changes} == {"take"}
    assert lines(_AGENT, changes) == {
        "if (thread || most->left < '<') { // 1 < 2",
        "if (!thread && most->left < '<') { // 1 < 2",
        "if (!thread || most->left <= '<') { // 1 < 2",
        "if (1) { // 1 < 2",
        "if (0) { // 1 < 2",
        ";",
        "while (most--)",
        "while (0)",
        "most->left += 0x0f;",
        "most->left -= 0x10;",
        "return 0;",
    }


def test_the_same_seed_draws_the_same(tmp_path: Path) -> None:
    package = tmp_path / "src" / "soscope"
    package.mkdir(parents=True)
    (package / "made.py").write_text(_MODULE)
    (package / "__main__.py").write_text(_MODULE)
    drawn = draw(tmp_path, 7, 0, 5)
    assert drawn == draw(tmp_path, 7, 0, 5) != draw(tmp_path, 8, 0, 5)
    assert [mutation.number for mutation in drawn] == [1, 2, 3, 4, 5]
    assert {mutation.file for mutation in drawn} == {"src/soscope/made.py"}
    assert len({mutation.line for mutation in drawn}) == 5
    for mutation in drawn:
        assert _MODULE[mutation.start : mutation.end] == mutation.before
        line = _MODULE.splitlines()[mutation.line - 1]
        assert mutation.change.startswith(" ".join(line.split()))


def test_a_header_is_used_through_another(tmp_path: Path) -> None:
    (tmp_path / "mem").mkdir()
    (tmp_path / "first.h").write_text("")
    (tmp_path / "second.h").write_text('#include "first.h"\n')
    (tmp_path / "mem" / "uses.c").write_text("#include <soscope/second.h>\n")
    (tmp_path / "other.c").write_text('#include "third.h"\n')
    assert users(tmp_path, tmp_path / "first.h") == [tmp_path / "mem" / "uses.c"]


def test_the_nearest_tests_are_the_first() -> None:
    far, alike = "tests/unit/wire/test_plan.py::test_a", "tests/integration/test_elf_names.py::b"
    folder, own = "tests/unit/binfmt/test_spans.py::c", "tests/unit/binfmt/test_names.py::d[x::y]"
    in_order = [own, folder, alike, far]
    assert nearest_first("src/soscope/binfmt/names.py", reversed(in_order)) == in_order
    assert by_name("src/soscope/binfmt/names.py", [far, alike, own, folder], 7) == in_order


def test_unit_tests_run_no_agent() -> None:
    tests = [
        "tests/unit/test_ring.py::a",
        "tests/integration/test_x.py::b",
        "tests/agent/test_ring.py::c",
    ]
    assert by_name("native/agent/ring/ring.c", tests, 7) == [tests[2], tests[1]]


def test_numbers_are_read() -> None:
    assert numbers("1-3,7") == {1, 2, 3, 7}


def test_the_log_of_pytest_is_read() -> None:
    log = """\
created: 2/2 workers
[gw0] [  1%] PASSED tests/unit/test_a.py::test_b[x - y]{}
tests/unit/test_a.py::test_c{}
[gw1] [ 50%] FAILED tests/unit/test_a.py::test_c@tests/unit/test_a.py{}
[gw1] [100%] SKIPPED tests/unit/test_a.py::test_d{}
FAILED tests/unit/test_a.py::test_c - assert 0
""".replace("{}", " ")
    passed = ["tests/unit/test_a.py::test_b[x - y]", "tests/unit/test_a.py::test_d"]
    assert read_log(log) == (passed, ["tests/unit/test_a.py::test_c"])

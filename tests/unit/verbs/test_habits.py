# SPDX-License-Identifier: Apache-2.0
"""What people type out of habit: it works, or a sentence says what does."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from soscope.errors import UsageError
from soscope.verbs import report, trace
from soscope.verbs.habits import HABITS
from tests.support.machines.tools import need
from tests.support.processes.run import run

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "options.md"
OWN = {flag for option in trace.VERB.options for flag in option.flags} | {"-h", "--help"}


def listed(tool: str) -> set[str]:
    """Return the options that a tool says it has."""
    text = run([tool, "--help"]).stdout
    flags = set()
    for line in re.findall(r"^ +(-.*)$", text, re.MULTILINE):
        head = re.split(r"  +|\t", line)[0]
        flags |= set(re.findall(r"(?<![\w-])(-[A-Za-z]|--[a-z][a-z-]+)", head))
    return flags


@pytest.mark.parametrize("tool", ["ltrace", "strace"])
def test_every_option_of_theirs_works_or_is_explained(tool: str) -> None:
    need(tool)
    flags = listed(tool)
    assert len(flags) > 20
    assert flags - OWN - HABITS.keys() == set()


@pytest.mark.parametrize("flag", sorted(HABITS.keys() - OWN))
def test_a_sentence_is_no_usage_error_without_a_word(flag: str) -> None:
    for parse, rest in ((trace.parse, ["x", "ls"]), (report.parse, ["x"])):
        with pytest.raises(UsageError) as caught:
            parse([flag, *rest])
        said = caught.value.message
        assert said == f"there is no {flag}: {HABITS[flag]}"
        assert "unrecognized" not in said


def test_a_letter_among_others_is_explained() -> None:
    with pytest.raises(UsageError, match="there is no -w: "):
        trace.parse(["-Tw", "ls"])
    with pytest.raises(UsageError, match="there is no --trace: "):
        trace.parse(["-T", "--trace=open", "ls"])


def test_what_belongs_to_the_command_is_its_own() -> None:
    assert trace.parse(["ls", "-k"]).settings.command == ["ls", "-k"]


def test_options_named_in_sentences_are_there() -> None:
    for flag, sentence in HABITS.items():
        for named in re.findall(r"(?<![\w-])--[a-z][a-z-]+", sentence):
            assert named in OWN | {"--version"}, (flag, named)


def test_the_page_has_every_letter() -> None:
    page = PAGE.read_text()
    first = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))
    known = {f"-{letter}" for letter in string.ascii_letters} & (OWN | HABITS.keys())
    assert known - set(re.findall(r"`(-[A-Za-z])", first)) == set()


@pytest.mark.parametrize(
    ("words", "select"),
    [
        (["trace=open,close"], ["open,close"]),
        (["t=open", "read"], ["open", "read"]),
        (["trace=%file,?getpid"], ["%file,getpid"]),
        (["trace=network"], ["%net"]),
        (["trace=%memory,%signal"], ["%mem,%signal"]),
        (["trace=%stat"], ["*stat,*stat64,*statx"]),
        (["trace=!open,close"], ["-open-close"]),
        (["!%file"], ["-%file"]),
        (["trace=all"], ["*"]),
        (["/a=b/"], ["/a=b/"]),
        (["-open"], ["-open"]),
    ],
)
def test_straces_words_mean_what_they_mean_there(words: list[str], select: list[str]) -> None:
    given = [part for word in words for part in ("-e", word)]
    assert trace.parse([*given, "ls"]).settings.select == select


def test_straces_signals_and_ends() -> None:
    choice = trace.parse(["-e", "signal=none", "-e", "status=failed", "ls"]).choice
    assert choice is not None
    assert not choice.signals
    assert choice.ends == 2
    choice = report.parse(["-e", "s=!all", "-e", "status=successful", "x"]).choice
    assert choice is not None
    assert choice.ends == 1
    assert choice.selection is None


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("inject=read:error=EIO", "soscope inject -e inject="),
        ("signal=SIGCHLD", "-b shows none of them"),
        ("status=unfinished", "-z: calls that succeed"),
        ("read=3", "-s N shows more"),
        ("trace=/open", r"-e '/.*open.*/' is a regular expression"),
        ("trace=none", "nothing would be shown"),
        ("colour=red", "no function is called so"),
    ],
)
def test_straces_words_that_cannot_be_are_explained(word: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        trace.parse(["-e", word, "ls"])
    assert f"-e '{word}' is strace's: " in caught.value.message
    assert said in caught.value.message


def test_an_output_that_is_a_command_is_explained() -> None:
    with pytest.raises(UsageError, match="starts no command") as caught:
        trace.parse(["-o", "|cat", "ls"])
    assert "./|cat" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("-n ls", "'ls' is not a number", "strace's -n"),
        ("-A -o out ls", "'-o' is not a number", "strace's -A"),
        ("-b execve ls", "no program is called 'execve'", "strace's -b execve"),
        ("-c -S calls ls", "no program is called 'calls'", "--sort KEY"),
    ],
)
def test_a_letter_with_another_meaning_is_explained(words: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        trace.parse(words.split())
    assert hint in (caught.value.hint or "")


def test_a_program_that_is_called_like_a_word_of_straces_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "calls"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert trace.parse(["-S", "calls"]).settings.command == ["calls"]
    assert trace.parse(["-S", "name.sh"]).settings.command == ["name.sh"]


@pytest.mark.parametrize("flag", ["-f", "-u", "-E", "--record", "--buffer", "--entry-only"])
def test_a_report_knows_what_is_for_a_trace(flag: str) -> None:
    with pytest.raises(UsageError, match=f"there is no {flag}: soscope trace has it"):
        report.parse([flag, "x", "y"])

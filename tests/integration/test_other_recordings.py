# SPDX-License-Identifier: Apache-2.0
"""A file that a verb cannot read: one sentence says what it is, and which verb reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import soscope
from tests.support.processes import run
from tests.support.targets.build import made

MADE = {
    "trace": ["trace", "-q", "--record"],
    "mem": ["mem", "run", "-q", "--blocks", "-o"],
    "prof": ["prof", "run", "-q", "-o"],
}
# What else a family records: one sentence is for all of it.
ALSO = {
    "counts": ["trace", "-q", "--count-only", "--record"],
    "times": ["trace", "-q", "-c", "--record"],
    "sizes": ["mem", "run", "-q", "--blocks", "--mode", "count", "-o"],
    "samples": ["prof", "run", "-q", "--sample", "99", "-o"],
}
READS = {"trace": "soscope report", "mem": "soscope mem report", "prof": "soscope prof report"}
# verb: what it reads
VERBS = {
    "report": {"trace"},
    "report -c": {"trace"},
    "report --json": {"trace"},
    "export --format folded -o -": {"trace", "prof"},
    "export --format chrome -o -": {"trace", "prof"},
    "mem report": {"mem"},
    "mem report --json": {"mem"},
    "mem leaks": {"mem"},
    "mem report --peak": {"mem"},
    "mem report --temporary": {"mem"},
    "mem flame -o x.svg": {"mem"},
    "mem diff {}": {"mem"},
    "prof report": {"prof"},
    "prof report --json": {"prof"},
    "prof flame -o x.svg": {"prof"},
    "prof diff {}": {"prof"},
}
FOREIGN = {
    "empty": (b"", "is empty, not a recording of soscope"),
    "short": (b"SO", "is not a recording: magic at offset 0: it was cut: the file has 2 bytes"),
    "head": (
        b"SOSR" + bytes(6),
        "is not a recording: magic at offset 0: it was cut: the file has 10",
    ),
    "text": (b"+++ exited (status 0) +++\n", "is a text, not a recording of soscope"),
    "bytes": (
        bytes(range(128, 228)),
        "is not a recording: magic at offset 0: the file begins with 80",
    ),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(60), "is an ELF file, not a recording of soscope"),
    "perf": (b"PERFILE2" + bytes(100), "is a recording of perf, not a recording of soscope"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(60), "is compressed by gzip, not a recording of soscope"),
    "json": (b'{"traceEvents": []}', "is a JSON document, not a recording of soscope"),
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    for family, words in MADE.items():
        done = run.soscope(*words, folder / family, "--", "true")
        assert done.returncode == 0, done.stderr
    for name, (data, _) in FOREIGN.items():
        (folder / name).write_bytes(data)
    return {name: folder / name for name in (*MADE, *FOREIGN)}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_says_what_it_is(verb: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    own = recordings[min(VERBS[verb])]
    for name, path in recordings.items():
        if name in VERBS[verb]:
            continue
        done = run.soscope(*verb.format(own).split(), path, cwd=tmp_path)
        lines = done.stderr.splitlines()
        assert done.returncode == 1, (name, lines)
        assert done.stdout == "", name
        assert not list(tmp_path.iterdir()), name
        if name in MADE:
            assert lines[0].startswith(f"soscope: error: '{path}' is a recording of soscope {name}")
            assert lines[1:] == [f"  hint: {READS[name]} {path} shows it"], name
        elif "diff" in verb and name != "head":  # takes documents, too
            assert f"'{path}' is neither a recording nor a document of soscope" in lines[0], name
        else:
            assert lines[0].startswith(f"soscope: error: '{path}' {FOREIGN[name][1]}"), name


@pytest.mark.parametrize("family", ["mem", "prof"])
def test_open_raises(family: str, recordings: dict[str, Path]) -> None:
    with pytest.raises(soscope.SoscopeError, match=f"is a recording of soscope {family}") as raised:
        soscope.open(recordings[family])
    assert READS[family] in str(raised.value.hint)


def test_a_recording_that_is_cut_still_says_whose_it_is(
    recordings: dict[str, Path], tmp_path: Path
) -> None:
    cut = tmp_path / "cut"
    shutil.copy(recordings["mem"], cut)
    with open(cut, "r+b") as file:
        file.truncate(cut.stat().st_size - 20)
    done = run.soscope("report", cut)
    assert done.returncode == 1
    assert "is a recording of soscope mem" in done.stderr


@pytest.mark.parametrize("name", ALSO)
def test_all_that_a_family_records_is_told(name: str, tmp_path: Path) -> None:
    path, family = tmp_path / name, ALSO[name][0]
    done = run.soscope(*ALSO[name], path, "--", "true")
    assert done.returncode == 0, done.stderr
    for verb in ("report", "mem report", "prof report"):
        if verb != READS[family].removeprefix("soscope "):
            done = run.soscope(*verb.split(), path)
            assert (done.returncode, done.stdout) == (1, ""), verb
            assert f"'{path}' is a recording of soscope {family}\n" in done.stderr, verb
            assert f"hint: {READS[family]} {path} shows it" in done.stderr, verb


@pytest.mark.parametrize("size", [20, 24, 60])
def test_one_that_was_cut_in_its_first_block_says_so(
    size: int, recordings: dict[str, Path], tmp_path: Path
) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(recordings["trace"].read_bytes()[:size])
    for verb in ("report", "export --format csv -o -", "mem report", "prof report"):
        done = run.soscope(*verb.split(), cut)
        assert (done.returncode, done.stdout) == (1, ""), verb
        assert f"it was cut: the file has {size} bytes" in done.stderr, verb
    with pytest.raises(soscope.SoscopeError, match="it was cut"):
        soscope.open(cut)


@pytest.mark.parametrize(
    "verb", ["map", "check", "explain {} f", "prof check", "audit-resolver", "doctor"]
)
def test_verbs_that_read_programs_say_what_a_recording_is(
    verb: str, recordings: dict[str, Path]
) -> None:
    path = recordings["mem"]
    words = verb.format(path).split() if "{}" in verb else [*verb.split(), str(path)]
    done = run.soscope(*words)
    assert done.returncode == 1
    assert "a recording of soscope" in done.stderr, done.stderr
    assert f"soscope report {path} shows it, or says which verb does" in done.stderr


SILENT = """
int main(void)
{
	return 0;
}
"""


def test_nothing_is_made_of_a_recording_without_events(tmp_path: Path) -> None:
    program = made({"silent.c": SILENT}, "gcc silent.c -o silent") / "silent"
    none = {name: tmp_path / f"{name}.sosr" for name in MADE}
    run.soscope("trace", "-q", "-e", "no_such_function", "--record", none["trace"], "--", program)
    run.soscope("prof", "run", "-q", "--sample", "1", "-o", none["prof"], "--", program)
    for words, says in (
        (
            ["export", "--format", "folded", "-o", "-", str(none["trace"])],
            "soscope trace without a call",
        ),
        (
            ["export", "--format", "csv", "-o", "-", str(none["trace"])],
            "soscope trace without a call",
        ),
        (
            ["export", "--format", "folded", "-o", "-", str(none["prof"])],
            "prof without calls and samples",
        ),
        (["prof", "flame", "-o", "x.svg", str(none["prof"])], "prof without calls and samples"),
    ):
        done = run.soscope(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, ""), words
        assert not (tmp_path / "x.svg").exists()
        assert f"'{words[-1]}' is a recording of soscope " in done.stderr, done.stderr
        assert says in done.stderr, done.stderr

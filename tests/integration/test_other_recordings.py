# SPDX-License-Identifier: Apache-2.0
"""A file that a verb cannot read: one sentence says what it is, and which verb reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import soscope
from tests.support.processes import run

MADE = {
    "trace": ["trace", "-q", "--record"],
    "mem": ["mem", "run", "-q", "--blocks", "-o"],
    "prof": ["prof", "run", "-q", "-o"],
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
    "mem peak": {"mem"},
    "mem temporary": {"mem"},
    "mem flame -o x.svg": {"mem"},
    "mem diff {}": {"mem"},
    "prof report": {"prof"},
    "prof report --json": {"prof"},
    "prof flame -o x.svg": {"prof"},
    "prof diff {}": {"prof"},
}
FOREIGN = {
    "empty": (b"", "is not a recording: magic at offset 0: the file has 0 bytes"),
    "short": (b"SO", "is not a recording: magic at offset 0: the file has 2 bytes"),
    "bytes": (bytes(range(128, 228)), "is not a recording: magic at offset 0: 0x83828180"),
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
        elif "diff" in verb:  # takes documents, too
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

# SPDX-License-Identifier: Apache-2.0
"""Calls are shown by debug information, wherever it is, as the program says they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_own_prototypes import CHOICE, OWN, build, lines_of, traced
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.build import made_in
from tests.support.time.patience import limit
from tests.support.time.progress import has_switched


def debug_file(folder: Path, name: str) -> None:
    """Move the debug information of a file into another one, beside it."""
    for command in (
        f"objcopy --only-keep-debug {name} {name}.debug",
        f"objcopy --strip-debug --add-gnu-debuglink={name}.debug {name}",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, timeout=limit())


@pytest.mark.covering(1)
@pytest.mark.parametrize("flags", ["-g", "-g -O0", "-gdwarf-4", "-g3 -O2", "-gdwarf-3"])
@pytest.mark.parametrize("whose", ["library", "caller"])
def test_types_of_the_library_or_of_its_caller(tmp_path: Path, flags: str, whose: str) -> None:
    need("gcc")
    if flags == "-gdwarf-3":
        flags = "-gdwarf-3 -gstrict-dwarf"
    build(tmp_path, *((flags, "-g0") if whose == "library" else ("-g0", flags)))
    said, _, shown = traced(tmp_path)
    if "strict" in flags:  # its bit-fields are counted from the other end
        said = [line for line in said if "own_flip" not in line]
        shown = [line for line in shown if "own_flip" not in line]
    assert shown == said


def test_types_as_clang_writes_them(tmp_path: Path) -> None:
    """Its DWARF 5 names everything by an index (DW_FORM_strx)."""
    need("gcc")
    need("clang")
    build(tmp_path, "-g0", "-g0")
    command = f"clang -O1 -g -gdwarf-5 -shared -fPIC {OWN / 'lib_own_types.c'} -o libown_types.so"
    made_in(tmp_path, *command.split())
    said, notes, shown = traced(tmp_path)
    assert shown == said
    assert "not read" not in notes


def test_where_nothing_is_unknown_no_reader_is_imported() -> None:
    """Whoever starts a program waits for it: declarations and DWARF are read for few."""
    script = (
        "import sys; from soscope.verbs.main import main\n"
        "main(['trace', '-q', '--', '/bin/true'])\n"
        "assert 'soscope.instruments.trace.described' in sys.modules\n"
        "for reader in ('prototypes.parser', 'binfmt.dwarfentries'):\n"
        "    assert f'soscope.{reader}' not in sys.modules, reader"
    )
    done = run([sys.executable, "-c", script])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["libown_types.so", "own_types"])
def test_a_separate_debug_file(tmp_path: Path, name: str) -> None:
    need("gcc")
    need("objcopy")
    library, program = ("-g", "-g0") if name.startswith("lib") else ("-g0", "-g")
    build(tmp_path, library, program)
    debug_file(tmp_path, name)
    said, _, shown = traced(tmp_path)
    assert shown == said
    # one of another build is none
    (tmp_path / f"{name}.debug").write_bytes((tmp_path / f"{name}.debug").read_bytes() + b"\0")
    assert lines_with_guesses(tmp_path)


def addressless(lines: list[str]) -> list[str]:
    return [line for line in lines if "own_apply" not in line]


def lines_with_guesses(folder: Path) -> list[str]:
    return [line for line in traced(folder)[2] if " ?" in line]


def test_the_table_and_the_users_file_count_before(tmp_path: Path) -> None:
    need("gcc")
    build(tmp_path, "-g", "-g0")
    header = tmp_path / "own.h"
    header.write_text("int own_next(int c HEX, long l);")
    said, _, shown = traced(tmp_path, "-F", header)
    assert "own_next(0x5, 1) = 6" in shown
    assert [line for line in shown if "own_next" not in line] == [
        line for line in said if "own_next" not in line
    ]


def test_a_recording_keeps_the_types(tmp_path: Path) -> None:
    need("gcc")
    build(tmp_path, "-g0", "-g")
    recording = tmp_path / "own.sosr"
    done = run([*SOSCOPE, "trace", *CHOICE, "--record", recording, tmp_path / "own_types"])
    assert done.returncode == 0, done.stderr
    (tmp_path / "own_types").unlink()
    report = run([*SOSCOPE, "report", "-s", "64", recording])
    assert lines_of(report.stdout) == done.stdout.splitlines()


def test_a_program_that_another_one_executes(tmp_path: Path) -> None:
    need("gcc")
    build(tmp_path, "-g", "-g0")
    out = tmp_path / "trace"
    command = f"{tmp_path / 'own_types'}; exit 0"
    done = run([*SOSCOPE, "trace", "-f", "-e", "own_*", "-s", "64", "-o", out, "sh", "-c", command])
    assert done.returncode == 0, done.stderr
    assert lines_of(out.read_text(errors="surrogateescape")) == done.stdout.splitlines()


def test_a_running_process(tmp_path: Path) -> None:
    need("gcc")
    build(tmp_path, "-g0", "-g0")
    (tmp_path / "loop.c").write_text(
        '#include "own_types.h"\n#include <unistd.h>\n'
        "int main(void) { for (;;) { own_next(GREEN, LOW); usleep(1000); } }\n"
    )
    command = f"gcc -g -I{OWN} loop.c -o loop -L. -lown_types -Wl,-rpath,$ORIGIN"
    made_in(tmp_path, *command.split())
    process = subprocess.Popen([tmp_path / "loop"])
    try:
        words = ["-e", "own_*", "-o", str(tmp_path / "trace")]
        done = attached.observe(process.pid, *words, until=has_switched(process.pid))
        assert done.returncode == 0, done.stderr
    finally:
        process.kill()
        process.wait(limit())
    shown = lines_of((tmp_path / "trace").read_text())
    assert shown
    assert set(shown) <= {"own_next(GREEN, LOW) = RED", "own_next(GREEN, LOW <unfinished ...>"}


def test_damaged_debug_information_leaves_guesses(tmp_path: Path) -> None:
    need("gcc")
    build(tmp_path, "-g", "-g0")
    library = tmp_path / "libown_types.so"
    whole = library.read_bytes()
    said = traced(tmp_path)[0]
    listed = run(["readelf", "-SW", library]).stdout
    fields = next(line for line in listed.splitlines() if " .debug_info" in line).split("]")[1]
    offset, size = (int(word, 16) for word in fields.split()[3:5])
    for step in range(0, size, max(size // 8, 1)):
        damaged = bytearray(whole)
        damaged[offset + step : offset + step + 40] = bytes(40)
        library.write_bytes(damaged)
        out, errors, shown = traced(tmp_path)
        assert addressless(out) == addressless(said)
        assert "bug in soscope" not in errors
        assert len(shown) == len(said)


def test_a_program_in_cxx(tmp_path: Path) -> None:
    need("g++")
    build(tmp_path, "-g0", "-g0")
    text = (OWN / "own_types.c").read_text()
    kept = [line for line in text.splitlines() if "wave" not in line and "own_turned" not in line]
    body = "\n".join(kept).replace(".f = 1.0f", "0x3f800000").replace("READ | EXEC", "(mode)5")
    header = (OWN / "own_types.h").read_text()
    lines = [line for line in header.splitlines() if "wave" not in line]
    (tmp_path / "own_types.h").write_text("\n".join(lines).replace("_Bool", "bool"))
    (tmp_path / "own.cc").write_text(body.replace("#include <complex.h>\n", ""))
    command = "g++ -g -fpermissive -w -include own_types.h own.cc -o own_types -L. -lown_types"
    made_in(tmp_path, *command.split(), "-Wl,-rpath,$ORIGIN")
    said, _, shown = traced(tmp_path)
    assert len(said) == 23
    assert shown == said


def explained(*words: str | Path) -> tuple[int, list[str]]:
    done = run([*SOSCOPE, "trace", "--explain", *words])
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def test_explain_names_the_source(tmp_path: Path) -> None:
    need("gcc")
    build(tmp_path, "-g", "-g0")
    header = tmp_path / "other.h"
    header.write_text("\nint own_next(int a);\n")
    program, library = tmp_path / "own_types", tmp_path / "libown_types.so"
    lines = (OWN / "lib_own_types.c").read_text().splitlines()
    line = lines.index("enum color own_next(enum color c, level l)") + 1
    declaration = "enum color own_next(enum color c, level l)"
    where = f"    debug information: {library}: lib_own_types.c:{line}"
    assert explained("own_next", "--", program) == (0, [declaration, where])
    user = ["int own_next(int a)", f"    --prototypes: {header}:2"]
    assert explained("own_next", "-F", header, "--", program) == (0, user)
    guess = "own_next: a guess: its first words are shown, marked ?"
    status, told = explained("own_next")
    assert (status, told[0]) == (1, guess)
    later = "    what it loads later (dlopen) is known when it runs: --explain SYMBOL -p PID"
    assert explained("own_next", "true") == (1, [guess, later])
    more = "    to look at debug information, too: --explain SYMBOL -- COMMAND, or -p PID"
    assert explained("_ZN3abc1fEi") == (
        0,
        ["long _ZN3abc1fEi(int _1) GUESSED(all)", "    its mangled name", more],
    )
    status, told = explained("close")
    assert (status, told[0]) == (0, "int close(int fd) FAILS(< 0) ALSO(__close)")
    assert "libc-file.h:" in told[1]

    build(tmp_path, "-g0", "-g")
    lines = (OWN / "own_types.h").read_text().splitlines()
    line = lines.index("enum color own_next(enum color c, level l);") + 1
    status, told = explained("own_next", program)
    assert (status, told[0]) == (0, "enum color own_next(enum color _1, level _2)")
    assert told[1] == f"    debug information of a caller: {program}: own_types.h:{line}"
    document = json.loads("\n".join(explained("own_next", "--json", program)[1]))
    assert document["source"] == "debug information of a caller"
    assert (document["file"], document["where"]) == (str(program), f"own_types.h:{line}")


@pytest.mark.parametrize(("of_library", "of_program"), [("-g", "-g0"), ("-g0", "-g")])
def test_classes(tmp_path: Path, of_library: str, of_program: str) -> None:
    need("g++")
    library, program = OWN / "lib_own_class.cc", OWN / "own_class.cc"
    linked = "-L. -lown_class -Wl,-rpath,$ORIGIN"
    for command in (
        f"g++ {of_library} -shared -fPIC {library} -o libown_class.so",
        f"g++ {of_program} {program} -o own_class {linked}",
    ):
        made_in(tmp_path, *command.split())
    out = tmp_path / "trace"
    words = ["-l", "libown_class.so", "--from", "MAIN", "-o"]
    done = run([*SOSCOPE, "trace", *words, out, tmp_path / "own_class"])
    assert done.returncode == 0, done.stderr
    calls = [line.partition("->")[2] for line in out.read_text().splitlines() if "->" in line]
    assert [re.sub(r"\) += ", ") = ", line) for line in calls] == done.stdout.splitlines()

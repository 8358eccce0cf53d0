# SPDX-License-Identifier: Apache-2.0
"""Display options of `trace` and `report`, against what programs say of themselves."""

from __future__ import annotations

import os
import pwd
import re
import sys
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets.build import made_in

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]
SOURCE = """\
#include <stdio.h>
#include <unistd.h>

#define SAID(call) (printf("%s %d\\n", __func__, __LINE__), (call))

__attribute__((noinline)) static int inner(void)
{
\treturn SAID(getppid()) > 0;
}

int main(void)
{
\tint sum = inner();

\tsum += SAID(getppid()) > 0;
\tsum +=
\t\tSAID(getppid()) > 0;
\treturn sum != 3;
}
"""
PLACE = re.compile(r"^\[(\S+)\+0x([0-9a-f]+) (\w+)\+0x[0-9a-f]+ (\S+):(\d+)\] ")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a program that prints the lines of its calls."""
    folder = tmp_path_factory.mktemp("places")
    source, program = folder / "places.c", folder / "places"
    source.write_text(SOURCE)
    made_in(folder, "gcc", "-g", "-O1", "-o", program, source)
    return program


def test_places_are_those_of_the_calls(places: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    words = ["-q", "-i", "-e", "getppid", "--record", os.fspath(file), "-o", "-", "--"]
    done = run([*SOSCOPE, *words, os.fspath(places)])
    said = [line for line in done.stdout.splitlines() if re.fullmatch(r"\w+ \d+", line)]
    lines = [line for line in done.stdout.splitlines() if "getppid" in line]
    assert len(said) == len(lines) == 3, done.stdout
    for line, told in zip(lines, said, strict=True):
        matched = PLACE.match(line)
        assert matched is not None, line
        image, vaddr, function, source, number = matched.groups()
        assert (image, source) == ("places", "places.c")
        assert f"{function} {number}" == told
        # the call is in front of the address to which it returns
        before = hex(int(vaddr, 16) - 1)
        peer = run([need("addr2line"), "-f", "-e", os.fspath(places), before]).stdout.split()
        assert [peer[0], peer[1].rpartition("/")[2]] == [function, f"{source}:{number}"]
    shown = run([*REPORT, "-i", os.fspath(file)]).stdout.splitlines()
    assert [line for line in shown if "getppid" in line] == lines


def test_a_stripped_program_has_offsets_alone(places: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    run([need("strip"), "-s", "-o", os.fspath(stripped), os.fspath(places)])
    done = run([*SOSCOPE, "-q", "-i", "-e", "getppid", "--", os.fspath(stripped)])
    lines = [line for line in done.stderr.splitlines() if "getppid" in line]
    assert len(lines) == 3
    assert all(re.match(r"\[stripped\+0x[0-9a-f]+\] stripped->getppid\(\)", line) for line in lines)


def test_places_in_functions_of_cpp_are_named_as_they_are_written(tmp_path: Path) -> None:
    source, program = tmp_path / "shape.cc", tmp_path / "shape"
    source.write_text(
        "#include <unistd.h>\nnamespace ns { struct Shape { int area(int); }; }\n"
        "__attribute__((noinline)) int ns::Shape::area(int n) { return getppid() + n; }\n"
        "int main(int n, char **) { return ns::Shape().area(n) == 0; }\n"
    )
    made_in(tmp_path, "g++", "-o", program, source)
    words = ["-q", "-i", "-e", "getppid", os.fspath(program)]
    for more, name in (([], "ns::Shape::area"), (["--no-demangle"], "_ZN2ns5Shape4areaEi")):
        done = run([*SOSCOPE, *more, *words])
        (line,) = [line for line in done.stderr.splitlines() if "getppid" in line]
        assert f" {name}+0x" in line.partition("]")[0]


def test_names_are_chosen_as_they_are_shown(tmp_path: Path) -> None:
    """The program itself says how often it called what."""
    need("g++")
    library, source = tmp_path / "library.cc", tmp_path / "program.cc"
    library.write_text(
        "struct Lock { Lock(); ~Lock(); int depth(int) const; };"
        "Lock::Lock() {} Lock::~Lock() {} int Lock::depth(int a) const { return a; }"
        "namespace outer { template <typename T> T twice(T a) { return a + a; }"
        "template int twice(int); template double twice(double); int once(int a) { return a; } }"
    )
    source.write_text(
        "struct Lock { Lock(); ~Lock(); int depth(int) const; };"
        "namespace outer { template <typename T> T twice(T); int once(int); }"
        "int main() { Lock lock; lock.depth(1); lock.depth(2);"
        "outer::twice(1); outer::twice(1.5); outer::twice(2.5); return outer::once(0); }"
    )
    made_in(tmp_path, "g++", "-shared", "-fPIC", "-o", tmp_path / "liblock.so", library)
    libraries = tmp_path / "liblock.so", "-Wl,-rpath,$ORIGIN"
    made_in(tmp_path, "g++", "-o", tmp_path / "program", source, *libraries)
    for expression, count in (
        ("Lock::*", 4),
        ("Lock::depth", 2),
        ("Lock::Lock,Lock::~Lock", 2),
        ("outer::twice", 3),
        ("outer::*-outer::twice*", 1),
        ("*::*ce", 4),
        ("outer::depth", 0),
    ):
        done = run([*SOSCOPE, "-e", expression, os.fspath(tmp_path / "program")])
        assert done.returncode == 0
        assert f"soscope: {count} call" in done.stderr, (expression, done.stderr)


def test_the_command_gets_another_environment() -> None:
    words = ["-q", "-E", "ADDED=a=b", "-E", "CHANGED=new", "-E", "GONE", "-E", "EMPTY=", "--"]
    env = {"CHANGED": "old", "GONE": "here", "KEPT": "kept"}
    done = run([*SOSCOPE, *words, need("env")], env=env)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found["ADDED"] == "a=b"
    assert found["CHANGED"] == "new"
    assert found["EMPTY"] == ""
    assert found["KEPT"] == "kept"
    assert "GONE" not in found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_the_command_is_another_user() -> None:
    user = pwd.getpwnam("nobody")
    words = ["-q", "-u", "nobody", "-e", "getuid,geteuid", "--"]
    code = "import os; print(os.getresuid(), os.getresgid(), sorted(os.getgroups()))"
    done = run([*SOSCOPE, *words, "/usr/bin/python3", "-I", "-S", "-c", code])
    ids, groups = (user.pw_uid,) * 3, (user.pw_gid,) * 3
    assert done.stdout.startswith(f"{ids} {groups} "), done.stderr
    assert done.stdout.split(") ")[-1].strip() == str(
        sorted(os.getgrouplist("nobody", user.pw_gid))
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-u", "nosuchuser", "true"], "-u: there is no user 'nosuchuser'"),
        (["-u", "nobody", "-p", "1"], "-u is for a command"),
        (["-E", "A=1", "-p", "1"], "-E is for a command"),
        (["-E", "=x", "true"], "'=x' names no variable"),
        (["--color", "blue", "true"], "'blue' is not one of auto, always, never"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], said: str) -> None:
    done = run([*SOSCOPE, *words])
    assert said in done.stderr
    assert done.returncode in (2, 125)


TELLS = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int count;

/* Say what the kernel says a descriptor is of, and call with a number that names the line. */
static void tell(int fd)
{
	char link[64], path[PATH_MAX] = "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) < 0)
		strcpy(path, "-");
	printf("%d %s\\n", ++count, path);
	fflush(stdout);
	lseek(fd, count, SEEK_SET);
}

int main(int argc, char **argv)
{
	(void)argc;
	int a = open(argv[1], O_RDONLY), b = open(argv[2], O_RDONLY | O_CLOEXEC);
	tell(a);
	tell(b);
	int dir = open(argv[3], O_RDONLY | O_DIRECTORY);
	int c = openat(dir, "inside", O_RDONLY);
	tell(c);
	tell(dup(a));
	close(a);
	int again = open(argv[2], O_RDONLY); /* the number of the first */
	tell(again);
	dup2(c, again);
	tell(again);
	pid_t child = fork();
	if (!child) {
		tell(again);
		close(again);
		tell(open(argv[1], O_RDONLY));
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	count = 100;
	tell(again);
	tell(b);
	return 0;
}
"""


def test_descriptors_are_of_what_the_kernel_says(tmp_path: Path) -> None:
    source, program = tmp_path / "tells.c", tmp_path / "tells"
    source.write_text(TELLS)
    made_in(tmp_path, "gcc", "-O1", "-o", program, source)
    folder = tmp_path / ("x" * 60)
    folder.mkdir()
    files = [folder / "first", folder / "second"]
    for file in (*files, folder / "inside"):
        file.write_text("text")
    recording = tmp_path / "run.sosr"
    words = [
        "-q",
        "-f",
        "-y",
        "-s",
        "5",
        "--record",
        os.fspath(recording),
        "-o",
        os.fspath(tmp_path / "out"),
    ]
    command = [os.fspath(program), *map(os.fspath, files), os.fspath(folder)]
    done = run([*SOSCOPE, *words, "--", *command])
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert len(said) == 10
    shown = run([*REPORT, "-y", "-s", "5", os.fspath(recording)]).stdout
    for text in (shown, (tmp_path / "out").read_text()):
        found = {
            number: path
            for path, number in re.findall(r"lseek\(\d+<([^>?]*)\??>, (\d+), SEEK_SET\)", text)
        }
        assert found == said
    assert f"= 3<{files[0]}>" in shown
    assert f'open("{os.fspath(files[0])[:5]}"...' in shown  # -s cuts strings alone


STREAMS = """\
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

/* Say what a stream is of, and call with a number that names the line. */
static void tell(FILE *stream, int number, const char *path)
{
	printf("%d %s\\n", number, path);
	fseek(stream, number, SEEK_SET);
}

int main(int argc, char **argv)
{
	(void)argc;
	FILE *a = fopen(argv[1], "r"), *b = fopen(argv[2], "re");
	tell(a, 1, argv[1]);
	tell(b, 2, argv[2]);
	fclose(a);
	FILE *again = fopen(argv[2], "r"); /* at the address of the first */
	tell(again, 3, argv[2]);
	again = freopen(argv[1], "r", again);
	tell(again, 4, argv[1]);
	FILE *c = fdopen(open(argv[2], O_RDONLY), "r");
	tell(c, 5, argv[2]);
	DIR *directory = opendir(argv[3]);
	readdir(directory);
	closedir(directory);
	tell(tmpfile(), 6, "nothing"); /* of which no call says a name */
	return 0;
}
"""


def test_streams_are_of_what_they_were_opened_for(tmp_path: Path) -> None:
    source, program = tmp_path / "streams.c", tmp_path / "streams"
    source.write_text(STREAMS)
    made_in(tmp_path, "gcc", "-O1", "-o", program, source)
    files = [tmp_path / "first", tmp_path / "second"]
    for file in files:
        file.write_text("text")
    words = ["-q", "-y", "--", os.fspath(program), *map(os.fspath, files), os.fspath(tmp_path)]
    done = run([*SOSCOPE, *words])
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    of = r"0x[0-9a-f]+(?:<([^>]*)>)?"
    found = re.findall(rf"fseek\({of}, (\d+), SEEK_SET\)", done.stderr)
    assert {number: path or "nothing" for path, number in found} == said
    assert len(said) == 6
    assert re.findall(rf"readdir\({of}\)", done.stderr) == [os.fspath(tmp_path)]
    assert re.findall(rf"freopen\(.*, {of}\) *= {of}", done.stderr) == [
        (os.fspath(files[1]), os.fspath(files[0]))
    ]


def test_a_path_chooses_what_is_done_with_its_descriptor(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text\n")
    perl = 'open(F, $ARGV[0]); <F>; close(F); open(F, "/dev/null"); <F>; close(F)'
    words = [
        "-q",
        "-P",
        os.fspath(file),
        "-e",
        "%file,%desc",
        "--",
        need("perl"),
        "-e",
        perl,
        os.fspath(file),
    ]
    lines = [line for line in run([*SOSCOPE, *words]).stderr.splitlines() if "perl->" in line]
    called = [re.split(r"[(>]", line)[1] for line in lines]
    assert called[0].startswith("open")
    assert "read" in called
    assert called[-1] == "close"
    assert not [line for line in lines if "/dev/null" in line]

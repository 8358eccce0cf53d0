# SPDX-License-Identifier: Apache-2.0
"""What programs hear of their own stack, while soscope comes and goes, and in other builds.

The program alone is the truth. tests/targets/walks*.c are compared with it in test_hazards.py.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import attached, tracing
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.build import made, made_in, need_linking
from tests.support.targets.matrix import PLAIN, REPOSITORY, Cell
from tests.support.time.patience import limit

WAYS = {
    "times": ["-c", "--from", "all"],
    "fcall": ["-c", "-e", "fcall"],
    "walks": ["-c", "-e", "fcall,backtrace,_Unwind*"],
    "record": ["--from", "all", "--record", "{}"],
}


def ask(process: subprocess.Popen[str], walks: int) -> str:
    """Let each thread make so many walks; hear how many were different since it was asked last."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{walks}\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.mark.every(4)
@pytest.mark.parametrize("way", WAYS)
def test_walks_of_four_threads_that_are_attached_to(way: str, tmp_path: Path) -> None:
    options = [word.format(tmp_path / "output") for word in WAYS[way]]
    with attached.running([build.program("attached_walks"), "4"]) as process:
        for _ in range(2):
            tracer = attached.begin(process.pid, *options)
            ask(process, 1)  # walks that were under way
            assert ask(process, 200) == "0 more\n"
            tracer.send_signal(signal.SIGINT)
            _, err = tracer.communicate(timeout=limit())
            assert tracer.returncode == 0, err
            ask(process, 1)
            assert ask(process, 200) == "0 more\n"
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_walks_of_a_process_that_a_killed_soscope_left() -> None:
    with attached.running([build.program("attached_walks"), "2"]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(3):
            tracer = attached.begin(process.pid, "-c", "-e", "fcall")
            tracer.kill()
            tracer.communicate(timeout=limit())
            ask(process, 1)
            assert ask(process, 200) == "0 more\n"
            assert attached.detach(process.pid).returncode == 0
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


CELLS = [
    PLAIN._replace(binding="no-plt"),
    PLAIN._replace(binding="no-plt", compiler="clang"),
    PLAIN._replace(binding="no-plt", pie="nopie"),
    PLAIN._replace(binding="ibt"),
    PLAIN._replace(binding="now", linker="lld"),
    PLAIN._replace(linker="mold"),
    PLAIN._replace(pie="nopie"),
]


@pytest.mark.covering(2)
@pytest.mark.parametrize("mode", ["summary", "everything"])
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_walks_of_programs_that_are_built_otherwise(cell: Cell, mode: str, tmp_path: Path) -> None:
    case = tracing.Case("walks", ("1",))
    command = tracing.program(case, cell)
    wanted = tracing.plain(command, tmp_path)
    assert wanted.outcome.status == 0, wanted.outcome
    got = tracing.traced(command, tmp_path, mode=mode, select="fcall")
    assert tracing.faults(wanted, got, mode=mode, follow=False) == []


def outputs(folder: Path, program: Path | str, *options: str) -> list[str]:
    """Return what a program prints alone, and under soscope; where it lies is the same."""
    same_place = ["setarch", "-R"]
    words = [*tracing.SOSCOPE, "-q", "-o", str(folder / "output"), *options, "--", str(program)]
    texts = []
    for command in ([*same_place, str(program)], [*same_place, *words]):
        done = run(command, env={"RUST_BACKTRACE": "full", "LC_ALL": "C"})
        assert done.returncode == 0, done.stderr
        texts.append(re.sub(r"thread 'main' \(\d+\)", "thread 'main'", done.stdout + done.stderr))
    return texts


RUST = """
use std::backtrace::Backtrace;
extern "C" {
    fn qsort(base: *mut i32, n: usize, size: usize, f: Compare);
}
type Compare = extern "C" fn(*const i32, *const i32) -> i32;
extern "C" fn compare(a: *const i32, b: *const i32) -> i32 {
    println!("{}", Backtrace::force_capture());
    let _ = std::panic::catch_unwind(|| panic!("caught"));
    unsafe { *a - *b }
}
fn main() {
    let mut values = [2, 1];
    unsafe { qsort(values.as_mut_ptr(), 2, 4, compare) };
    println!("{:?}", values);
}
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [("-c", "-e", "qsort"), ("-c", "--from", "all")])
def test_a_backtrace_of_rust(options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "walk.rs").write_text(RUST)
    program = tmp_path / "walk"
    made_in(tmp_path, "rustc", "-O", "-o", program, "walk.rs")
    alone, traced = outputs(tmp_path, program, *options)
    assert "walk::main" in alone
    assert traced == alone


C_CODE = """
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b)
{
	void *frames[40];
	for (int size = 1; size < 20; size++) {
		int count = backtrace(frames, size);
		for (int i = 0; i < count; i++)
			printf("%p ", frames[i]);
		puts("");
	}
	return *(const int *)a - *(const int *)b;
}
int main(void)
{
	int values[] = {2, 1};
	qsort(values, 2, sizeof(int), compare);
	return 0;
}
"""
OTHERS = {  # C library's backtrace loads its unwinder at the first call
    "lazy": ("", ["-Wl,-z,lazy"]),
    "now": ("", ["-Wl,-z,now"]),
    "no-plt": ("", ["-fno-plt"]),
    "loaded": ("", ["-Wl,--no-as-needed", "-lgcc_s"]),
    # a function of another's with the name, of another shape
    "own": (
        """
#include <stdio.h>
#include <stdlib.h>
double backtrace(int a, int b, int c, double d) { return a + b + c + d; }
static int compare(const void *a, const void *b)
{
	printf("%f\\n", backtrace(1, 2, 3, 4.5));
	return *(const int *)a - *(const int *)b;
}
int main(void)
{
	int values[] = {2, 1};
	qsort(values, 2, sizeof(int), compare);
	return 0;
}
""",
        ["-fno-builtin", "-Wl,--export-dynamic", "-fPIC", "-fno-inline"],
    ),
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("options", [("-c", "-e", "qsort"), ("-c", "--from", "all"), ("-f",)])
@pytest.mark.parametrize("other", OTHERS)
def test_a_program_in_c(other: str, options: tuple[str, ...], tmp_path: Path) -> None:
    code, flags = OTHERS[other]
    (tmp_path / "walk.c").write_text(code or C_CODE)
    program = tmp_path / "walk"
    made_in(tmp_path, "gcc", "-O1", "-o", program, "walk.c", *flags)
    alone, traced = outputs(tmp_path, program, *options)
    assert alone
    assert traced == alone


def test_a_program_where_ptrace_is_forbidden(tmp_path: Path) -> None:
    forbidden = [sys.executable, "-m", "tests.support.processes.forbid", "ptrace"]
    command = tracing.program(tracing.Case("walks"))
    wanted = tracing.plain(command, tmp_path)
    env = {"PYTHONPATH": str(REPOSITORY)}
    got = tracing.traced(
        command, tmp_path, mode="summary", select="fcall", prefix=forbidden, env=env
    )
    assert wanted.outcome.stdout.startswith("1: ")
    assert got.outcome.stdout == wanted.outcome.stdout
    assert got.counted["fcall"]


def test_nothing_is_hooked_where_no_exits_are_seen() -> None:
    """The slots of a program hold what they would, but for the function that is counted."""
    with attached.running([build.program("attached_walks"), "1"]) as process:
        for options in (("--count-only",), ("--entry-only",)):
            before = attached.snapshot(process.pid)
            tracer = attached.begin(process.pid, "-e", "usleep", "-o", "/dev/null", *options)
            changed = [line for line in attached.differences(before, process.pid) if "got" in line]
            own = [line for line in changed if "/attached_walks" in line]
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=limit())
            assert len(own) == 1, own
        assert attached.finish(process)[0] == 7


def compile_(compiler: str, source: Path, *flags: str) -> None:
    """Make the file that is called as @source is, without the ending."""
    made_in(source.parent, compiler, "-O1", "-o", source.stem, source, *flags)


OWN_UNWINDER = """
long _Unwind_Backtrace(long a, long b, long c, double d) { return a + b + c + (long)(d * 2); }
long _Unwind_GetIP(long a, long b, long c) { return 0x700000000 + a + b + c; }
"""
CALLS_OWN_UNWINDER = """
#include <stdio.h>
#include <stdlib.h>
long _Unwind_Backtrace(long a, long b, long c, double d);
long _Unwind_GetIP(long a, long b, long c);
static int compare(const void *a, const void *b)
{
	printf("%lx %lx\\n", _Unwind_Backtrace(1, 2, 0x100000003, .5), _Unwind_GetIP(5, 6, 7));
	return *(const int *)a - *(const int *)b;
}
int main(void)
{
	int values[] = {2, 1};
	qsort(values, 2, sizeof(int), compare);
	return 0;
}
"""


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_functions_of_another_shape_with_an_unwinders_names(binding: str, tmp_path: Path) -> None:
    (tmp_path / "libown.c").write_text(OWN_UNWINDER)
    (tmp_path / "calls.c").write_text(CALLS_OWN_UNWINDER)
    compile_("gcc", tmp_path / "libown.c", "-shared", "-fPIC")
    compile_("gcc", tmp_path / "calls.c", f"-Wl,-z,{binding}", "libown", "-Wl,-rpath,$ORIGIN")
    alone, traced = outputs(tmp_path, tmp_path / "calls", "-c", "-e", "qsort")
    assert alone == "100000007 700000012\n"
    assert traced == alone


IN_A_NAMESPACE = C_CODE.replace("int main(void)", "void go(void)").replace(
    "return 0;\n}\n", "fflush(stdout);\n}\n"
)
MAKES_A_NAMESPACE = """
#define _GNU_SOURCE
#include <dlfcn.h>
int main(void)
{
	for (int time = 0; time < 2; time++) {
		void *handle = dlmopen(LM_ID_NEWLM, PLUGIN, RTLD_NOW);
		((void (*)(void))dlsym(handle, "go"))();
		dlclose(handle);
	}
	return 0;
}
"""


@pytest.mark.parametrize("options", [("-c", "-e", "qsort"), ("-c", "--from", "all")])
def test_another_namespace(options: tuple[str, ...], tmp_path: Path) -> None:
    """Its C library has a backtrace, and an unwinder, of its own."""
    there = made(
        {"in.c": IN_A_NAMESPACE, "makes.c": MAKES_A_NAMESPACE},
        "gcc -O1 -o in in.c -shared -fPIC",
        ["gcc", "-O1", "-o", "makes", "makes.c", '-DPLUGIN="{here}/in"'],
    )
    alone, traced = outputs(tmp_path, there / "makes", *options)
    assert alone.count(" ") > 200
    frames = [[line.count(" ") for line in text.splitlines()] for text in (alone, traced)]
    assert frames[1] == frames[0]


THROWS = """
#include <unwind.h>
static _Unwind_Reason_Code step(struct _Unwind_Context *, void *data)
{
	++*static_cast<int *>(data);
	return _URC_NO_REASON;
}
extern "C" int walks()
{
	int count = 0;
	_Unwind_Backtrace(step, &count);
	return count;
}
extern "C" void throws() { throw walks(); }
"""
CATCHES = """
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/wait.h>
#include <unistd.h>
static const char *plugin;
static int compare(const void *, const void *)
{
	void *frames[64];
	int status;
	pid_t child = fork();
	if (child) {
		waitpid(child, &status, 0);
		printf("child: %x\\n", status);
		return 0;
	}
	for (int time = 0; time < 2; time++) {
		void *handle = dlopen(plugin, RTLD_NOW);
		reinterpret_cast<int (*)()>(dlsym(handle, "walks"))();
		printf("%d frames\\n", backtrace(frames, 64));
		if (time)
			reinterpret_cast<void (*)()>(dlsym(handle, "throws"))();
		dlclose(handle);
	}
	return 0;
}
int main(int, char **argv)
{
	int values[] = {2, 1};
	plugin = argv[1];
	setvbuf(stdout, nullptr, _IONBF, 0);
	try {
		throw 1; // the program's own unwinder makes its tables
	} catch (int) {
	}
	try {
		qsort(values, 2, sizeof(int), compare);
	} catch (...) {
		puts("caught");
		return 3;
	}
	return 0;
}
"""


@pytest.mark.parametrize("options", [("-c", "-e", "qsort"), ("-c", "--from", "all"), ()])
def test_a_child_that_is_not_followed_loads_its_unwinder(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """What it throws passes the calls that were open at the fork; the program has no unwinder."""
    for name, code, flags in (
        ("throws", THROWS, ["-shared", "-fPIC"]),
        ("catches", CATCHES, ["-static-libgcc", "-static-libstdc++"]),
    ):
        (tmp_path / f"{name}.cc").write_text(code)
        compile_("g++", tmp_path / f"{name}.cc", *flags)
    command = [str(tmp_path / "catches"), str(tmp_path / "throws")]
    traced = [*tracing.SOSCOPE, "-q", "-o", str(tmp_path / "output"), *options, "--", *command]
    alone, under = (run(words) for words in (command, traced))
    assert "caught\nchild: 300\n" in alone.stdout, alone
    assert (under.returncode, under.stdout) == (0, alone.stdout)


UNWOUND = """
    #include <cstdio>
    #include <cstdlib>
    static int compare(const void *, const void *) { throw 5; }
    int main()
    {
        int words[2] = {2, 1};
        for (int i = 0; i < 3; i++)
            try {
                qsort(words, 2, sizeof(int), compare);
            } catch (int number) {
                printf("caught %d\\n", number);
            }
        return 3;
    }"""


@pytest.mark.every(2)
@pytest.mark.parametrize("way", ["-c", "-T", "--record", "--count-only"])
def test_exceptions_by_another_unwinder_pass_hooked_calls(way: str, tmp_path: Path) -> None:
    """The libunwind of nongnu.org writes where it takes return addresses to be."""
    source, program = tmp_path / "thrown.cc", tmp_path / "thrown"
    source.write_text(UNWOUND)
    library = ["-Wl,--no-as-needed", "-l:libunwind.so.8"]
    need_linking("g++", *library)
    made_in(tmp_path, "g++", "-O1", "-o", program, source, *library)
    words = [way, *([str(tmp_path / "run.sosr")] if way == "--record" else [])]
    traced = run([*tracing.SOSCOPE, *words, "-e", "qsort", "-o", str(tmp_path / "out"), program])
    assert (traced.stdout, traced.returncode) == ("caught 5\n" * 3, 3), traced.stderr
    misses_returns = "results and times are not known in thrown" in traced.stderr
    assert misses_returns == (way != "--count-only")
    assert traced.stderr.rstrip().endswith("; not complete") == (way != "--count-only")

# SPDX-License-Identifier: Apache-2.0
"""Programs that are linked with musl, whose C library is its loader, too."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes import launching, tracing
from tests.support.processes.run import run
from tests.support.processes.tracing import Case
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.targets.matrix import PLAIN, Cell

MUSL = PLAIN._replace(compiler="musl")
# What shows in the way a program is built, few of each.
CELLS = [
    MUSL._replace(binding="now", pie="nopie", linker="lld", opt="O0"),
    MUSL._replace(binding="no-plt", linker="mold"),
    MUSL._replace(binding="no-plt", pie="nopie"),
    MUSL._replace(binding="ibt", linker="lld"),
    MUSL._replace(binding="ibt", pie="nopie", opt="O0"),
    MUSL._replace(linker="gold", opt="O0"),
]
FEW = ("calls", "weak", "identity", "canonical", "dlopen_threads")
TARGETS = [
    *("abi_values", "altstack", "calls", "cancel", "clone_stack", "dlopen_threads", "endings"),
    *("errno", "exec", "exit_from_thread", "fork", "fork_handler", "iconv", "identity", "images"),
    *("longjmp", "next", "output", "pointers", "qsort", "recursion", "registers", "signals"),
    *("spawn", "stackcopy", "tail", "thread_ends", "threads", "tls", "tsc", "versions", "vfork"),
    *("weak", "lazy_race", "reused_thread"),
]
# musl has no DT_RELR before 1.2.4, and loads a library that lacks a function: not all of dlopen.
LEFT_OUT = {"endings-rt"}  # its SIGRTMIN is another
CASES = [case for name in TARGETS for case in tracing.cases(name) if case.id not in LEFT_OUT] + [
    Case("dlopen", ("again",)),
    Case("dlopen", ("replace",)),
]
FORBIDDEN = [sys.executable, "-m", "tests.support.processes.forbid", "ptrace"]
SOSCOPE = [sys.executable, "-m", "soscope", "trace"]


def check(case: Case, cell: Cell, mode: str, folder: Path, *, preload: bool = False) -> None:
    if case.wish.get("pie") == "no":
        cell = cell._replace(pie="nopie")
    command = [str(build.program(case.target, cell)), *case.arguments]
    limit = tracing.timeout(case)
    wanted = tracing.plain(command, folder, limit=limit)
    assert wanted.outcome.status == case.status, wanted.outcome
    follow = case.wish.get("follow") == "yes" and not preload
    got = tracing.traced(
        command,
        folder,
        mode=mode,
        select=tracing.selection(case, wanted.truth),
        follow=follow,
        orphans=preload or case.wish.get("orphans") == "yes",
        untimed=case.wish.get("untimed") == "yes",
        limit=limit,
        prefix=FORBIDDEN if preload else (),
        env={"PYTHONPATH": launching.python_path()},
    )
    at_most = cell.binding == "no-plt" and case.target == "identity"
    if found := tracing.faults(wanted, got, mode=mode, follow=follow, at_most=at_most):
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.every(5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_target_does_the_same_and_is_recorded_right(case: Case, tmp_path: Path) -> None:
    check(case, MUSL, "record", tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["count", "summary", "everything"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_target_does_the_same_in_all_modes(case: Case, mode: str, tmp_path: Path) -> None:
    check(case, MUSL, mode, tmp_path)


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", ["count", "summary", "everything"])
@pytest.mark.parametrize("target", ["calls", "dlopen_threads", "fork", "registers", "vfork"])
def test_in_the_other_modes(target: str, mode: str, tmp_path: Path) -> None:
    check(tracing.cases(target)[0], MUSL, mode, tmp_path)


@pytest.mark.covering(2)
@pytest.mark.parametrize("target", FEW)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_counts_are_right_in_other_kinds_of_build(cell: Cell, target: str, tmp_path: Path) -> None:
    need(cell.linking()[0].replace("-fuse-ld=", "ld.").replace("ld.mold", "mold"))
    check(tracing.cases(target)[0], cell, "count", tmp_path)


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", tracing.MODES)
@pytest.mark.parametrize("target", ["calls", "dlopen_threads", "errno", "fork", "signals"])
def test_where_ptrace_is_forbidden(target: str, mode: str, tmp_path: Path) -> None:
    check(tracing.cases(target)[0], MUSL, mode, tmp_path, preload=True)


ENVIRONMENT = """
    #include <stdio.h>
    #include <sys/auxv.h>
    extern char **environ;
    int main(void)
    {
        for (char **entry = environ; *entry; entry++)
            puts(*entry);
        char **end = environ;
        while (*end)
            end++;
        unsigned long kinds = 0;
        for (unsigned long *aux = (unsigned long *)(end + 1); *aux; aux += 2)
            kinds += *aux > 1 && aux[1] == getauxval(*aux);
        printf("%lu %d\\n", kinds, getauxval(AT_PAGESZ) == 4096);
        return 0;
    }"""


def compiled(name: str, text: str, folder: Path, *flags: str) -> str:
    """Compile a program with musl."""
    source = folder / f"{name}.c"
    source.write_text(text)
    made_in(folder, "musl-gcc", "-O1", *flags, source, "-o", name)
    return str(folder / name)


@pytest.mark.covering(1)
@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize("preload", [None, "", "leaf"])
def test_the_environment_is_what_it_would_be(
    preload: str | None, forbidden: bool, tmp_path: Path
) -> None:
    program = compiled("environment", ENVIRONMENT, tmp_path)
    env = launching.environment()
    if preload is not None:
        env["LD_PRELOAD"] = preload and str(build.library(preload, MUSL))
    outputs = []
    for trace in ([], [*SOSCOPE, "-q", "--from", "all", "-o", "/dev/null", "--"]):
        # env: soscope itself is no program of musl's and cannot load that library
        words = ["/usr/bin/env", *(f"{key}={value}" for key, value in env.items()), *trace]
        words = [word for word in words if not (trace and word.startswith("LD_PRELOAD="))]
        if trace and preload is not None:
            words += ["/usr/bin/env", f"LD_PRELOAD={env['LD_PRELOAD']}"]
        done = run(
            [*(FORBIDDEN if forbidden else ()), *words, program], env=launching.environment()
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[1] == outputs[0]
    assert ("LD_PRELOAD" in outputs[0]) == (preload is not None)


def test_errno_is_named(tmp_path: Path) -> None:
    text = """
        #include <fcntl.h>
        int main(void) { return open("/no/such/file", O_RDONLY) == -1 ? 5 : 6; }"""
    program = compiled("opens", text, tmp_path)
    for before in ([], FORBIDDEN):
        done = run([*before, *SOSCOPE, "-e", "open", "--", program], env=launching.environment())
        assert done.returncode == 5
        assert 'open("/no/such/file", O_RDONLY)' in done.stderr
        assert "ENOENT" in done.stderr


@pytest.mark.parametrize("forbidden", [False, True])
def test_static_programs_run_untraced(forbidden: bool, tmp_path: Path) -> None:
    text = '#include <stdio.h>\nint main(void) { puts("there"); return 9; }'
    program = compiled("static", text, tmp_path, "-static")
    before = FORBIDDEN if forbidden else []
    done = run([*before, *SOSCOPE, "-c", "--", program], env=launching.environment())
    assert (done.returncode, done.stdout) == (9, "there\n")
    assert "ran untraced: it is statically linked" in done.stderr


def test_programs_of_both_libraries_in_one_tree(tmp_path: Path) -> None:
    text = """
        #include <stdlib.h>
        int main(void) { return system("/usr/bin/env true; /bin/true") ? 1 : atoi("4"); }"""
    musl = compiled("starts", text, tmp_path)
    done = run([*SOSCOPE, "-f", "--", musl], env=launching.environment())
    assert done.returncode == 4, done.stderr
    assert "system(" in done.stderr
    done = run([*SOSCOPE, "-f", "-e", "atoi", "--", "sh", "-c", f"{musl}; exit 3"])
    assert done.returncode == 3
    assert 'atoi("4")' in done.stderr


def test_a_library_that_comes_with_its_caller_is_a_callee(tmp_path: Path) -> None:
    """The caller stands in front of it in the loader's list."""
    compiled("libdep.so", "int dep(void) { return 7; }", tmp_path, "-shared", "-fPIC")
    plug = "int dep(void); int plug(void) { return dep(); }"
    flags = ["-shared", "-fPIC", "-L.", "-ldep", "-Wl,-rpath,$ORIGIN"]
    compiled("plug.so", plug, tmp_path, *flags)
    main = (
        "#include <dlfcn.h>\n"
        "int main(int c, char **v)\n"
        '{ int (*f)(void) = (int (*)(void))dlsym(dlopen(v[1], RTLD_NOW), "plug"); return f(); }'
    )
    words: list[str | Path] = [compiled("main", main, tmp_path), tmp_path / "plug.so"]
    done = run([*SOSCOPE, "-l", "libdep*", *words])
    assert done.returncode == 7
    assert re.search(r"^plug.so->dep\(.*= 7", done.stderr, re.MULTILINE), done.stderr

# SPDX-License-Identifier: Apache-2.0
"""Calls of libraries that are loaded later are shown by their types, as the program says they are.

What is kept of a call is fixed when its slot is hooked, so strings show that the types were known
before the first call.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.integration.test_cxx_names import CXX, HIDDEN
from tests.integration.test_own_prototypes import OWN, lines_of
from tests.support.machines.tools import need
from tests.support.processes.attached import begin
from tests.support.processes.others import drop
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until

# Loads a library, and calls a function of it that says what it passes.
LOADER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int load(const char *path, const char *name, int own)
{
    void *it = own ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_LAZY);
    int (*function)(void), (*flush)(FILE *), status;
    if (!it) {
        fputs(dlerror(), stderr);
        return 9;
    }
    *(void **)&function = dlsym(it, name);
    *(void **)&flush = dlsym(it, "fflush");
    status = function();
    flush(NULL); /* a namespace has a C library of its own */
    return status;
}
int main(int argc, char **argv)
{
    const char *how = argc > 3 ? argv[3] : "";
    char word;
    if (!strcmp(how, "wait") && read(0, &word, 1) != 1)
        return 8;
    if (!strcmp(how, "fork")) {
        for (int i = 0; i < 2; i++) {
            int status;
            if (!fork())
                exit(load(argv[1], argv[2], 0));
            wait(&status);
        }
        return 0;
    }
    return load(argv[1], argv[2], !strcmp(how, "namespace"));
}
"""
PLUGIN = "-shared -fPIC -Dmain=plugin_main -Wl,-rpath,$ORIGIN"
CHOICE = ("-e", "own_*", "-s", "64")


def built(folder: Path, of_library: str, of_plugin: str) -> Path:
    """Build a plugin that says what it passes to its library, and the program that loads it."""
    (folder / "loader.c").write_text(LOADER)
    for command in (
        "gcc -O1 -g0 loader.c -o loader -ldl",
        f"gcc -O1 {of_library} -shared -fPIC {OWN / 'lib_own_types.c'} -o libown_types.so",
        f"gcc -O1 {of_plugin} {PLUGIN} {OWN / 'own_types.c'} -o plugin.so -L. -lown_types",
    ):
        made_in(folder, *command.split())
    return folder / "loader"


def traced(folder: Path, *words: str | Path, how: str = "") -> tuple[list[str], list[str]]:
    """Return what the program said of its calls, and soscope's lines of them."""
    out = folder / "trace"
    command: list[str | Path] = [folder / "loader", folder / "plugin.so", "plugin_main", how]
    done = run([*SOSCOPE, "trace", *CHOICE, "-o", out, *words, *command])
    assert done.returncode == 0, done.stderr
    assert "were not looked for" not in done.stderr
    return done.stdout.splitlines(), lines_of(out.read_text(errors="surrogateescape"))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("of_library", "of_plugin", "how"),
    [("-g", "-g0", ""), ("-g0", "-g", ""), ("-g", "-g0", "namespace")],
    ids=["library", "caller", "namespace"],
)
def test_a_library_that_is_loaded(
    tmp_path: Path, of_library: str, of_plugin: str, how: str
) -> None:
    built(tmp_path, of_library, of_plugin)
    said, shown = traced(tmp_path, how=how)
    assert len(said) == 24
    assert shown == said


def test_children_that_load_it(tmp_path: Path) -> None:
    """A recording of it keeps the types."""
    built(tmp_path, "-g0", "-g")
    recording = tmp_path / "own.sosr"
    words: list[str | Path] = [tmp_path / "loader", tmp_path / "plugin.so", "plugin_main", "fork"]
    done = run([*SOSCOPE, "trace", "-f", *CHOICE, "--record", recording, *words])
    assert done.returncode == 0, done.stderr
    (tmp_path / "plugin.so").unlink()
    report = run([*SOSCOPE, "report", "-s", "64", recording])
    shown = [re.sub(r"^\[pid +\d+\] ", "", line) for line in lines_of(report.stdout)]
    assert len(shown) == 48
    assert shown == done.stdout.splitlines()


def test_where_nobody_knows_them_no_reader_is_imported(tmp_path: Path) -> None:
    """The thread that loads the library does not wait either."""
    built(tmp_path, "-g0", "-g0")
    said, shown = traced(tmp_path)
    assert len(shown) == len(said)
    assert all(" ?" in line or " = <void>" in line for line in shown)
    words = ["trace", "-q", *CHOICE, "--", str(tmp_path / "loader")]
    words += [str(tmp_path / "plugin.so"), "plugin_main"]
    script = (
        f"import sys; from soscope.verbs.main import main; main({words!r})\n"
        "assert 'soscope.instruments.trace.described' in sys.modules\n"
        "for reader in ('prototypes.parser', 'binfmt.dwarfentries', "
        "'instruments.trace.debugfile'):\n"
        "    assert f'soscope.{reader}' not in sys.modules, reader"
    )
    done = run([sys.executable, "-c", script])
    assert done.returncode == 0, done.stderr


def test_where_there_is_no_time_that_is_said(tmp_path: Path) -> None:
    built(tmp_path, "-g", "-g0")
    words = ["trace", *CHOICE, "--", str(tmp_path / "loader"), str(tmp_path / "plugin.so")]
    script = (
        "from soscope.verbs.main import main; from soscope.instruments.trace import described\n"
        f"described._LATER = 1e-6; main({[*words, 'plugin_main']!r})\n"
    )
    done = run([sys.executable, "-c", script])
    assert len(done.stdout.splitlines()) == len(lines_of(done.stderr)) == 24
    assert done.stderr.count("as it took too long") == 2  # this file, and all that may come


def test_a_separate_debug_file_of_a_library_that_is_loaded(tmp_path: Path) -> None:
    need("objcopy")
    built(tmp_path, "-g", "-g0")
    for command in (
        "objcopy --only-keep-debug libown_types.so libown_types.so.debug",
        "objcopy --strip-all --add-gnu-debuglink=libown_types.so.debug libown_types.so",
    ):
        subprocess.run(command.split(), cwd=tmp_path, check=True, timeout=limit())
    said, shown = traced(tmp_path)
    assert shown == said


@pytest.mark.parametrize("is_stopped", [False, True], ids=["attached", "stopped"])
def test_a_running_process_that_loads_it(tmp_path: Path, is_stopped: bool) -> None:
    """A soscope that does not answer is not waited for longer than a moment; that is said."""
    loader = built(tmp_path, "-g", "-g0")
    command: list[str | Path] = [loader, tmp_path / "plugin.so", "plugin_main", "wait"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        soscope = begin(process.pid, *CHOICE, "-o", str(tmp_path / "trace"))
        try:
            if is_stopped:
                soscope.send_signal(signal.SIGSTOP)
            said = process.communicate("x", timeout=limit())[0].splitlines()
        finally:
            soscope.send_signal(signal.SIGCONT)
        notes = soscope.communicate(timeout=limit())[1]
    assert process.returncode == 0
    shown = lines_of((tmp_path / "trace").read_text(errors="surrogateescape"))
    assert len(shown) == len(said) == 24
    note = "types of functions of 1 library that was loaded later were not looked for"
    assert (note in notes) == is_stopped
    assert (shown == said) != is_stopped


@pytest.mark.parametrize(
    "how",
    [
        "executed",
        pytest.param(
            "another user's",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another"),
        ),
    ],
)
def test_a_program_whose_plan_somebody_else_has_made(how: str, public_path: Path) -> None:
    """The helper that follows makes one, and so does the child that goes in: soscope writes there.

    The program is one that a followed process executes, or can open no file of soscope's.
    """
    loader = built(public_path, "-g", "-g0")
    command = [str(loader), str(public_path / "plugin.so"), "plugin_main"]
    options = [*CHOICE, "-o", str(public_path / "trace")]
    if how == "executed":
        command = ["/bin/sh", "-c", 'read word; exec "$@"', "sh", *command]
        options.append("-f")
    else:
        command = [*drop(), *command, "wait"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "S", "it waits")
        soscope = begin(process.pid, *options)
        said = process.communicate("x\n", timeout=limit())[0].splitlines()
        notes = soscope.communicate(timeout=limit())[1]
    assert process.returncode == 0
    assert "were not looked for" not in notes
    text = (public_path / "trace").read_text(errors="surrogateescape")
    shown = [re.sub(r"^\[pid +\d+\] ", "", line) for line in lines_of(text)]
    assert len(said) == 24
    assert shown == said


def test_an_extension_of_python(tmp_path: Path) -> None:
    """Its functions that others may replace are called through slots of its own."""
    (tmp_path / "paint.c").write_text(
        "#include <Python.h>\n"
        "enum colour { RED, GREEN = 5 };\n"
        "struct point { int x; double y; };\n"
        "int paint_at(const char *name, enum colour c, const struct point *p)\n"
        "{ return (int)strlen(name) + (int)c + p->x; }\n"
        "static PyObject *paint(PyObject *self, PyObject *args)\n"
        '{ const char *name; int x; if (!PyArg_ParseTuple(args, "si", &name, &x)) return NULL;\n'
        "  struct point p = {x, 1.5}; return PyLong_FromLong(paint_at(name, GREEN, &p)); }\n"
        'static PyMethodDef methods[] = {{"paint", paint, METH_VARARGS, 0}, {0}};\n'
        'static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "paint", 0, -1, methods};\n'
        "PyMODINIT_FUNC PyInit_paint(void) { return PyModule_Create(&module); }\n"
    )
    include = sysconfig.get_paths()["include"]
    need(f"{include}/Python.h")
    build = f"gcc -O1 -g -shared -fPIC -I{include} paint.c -o paint.so"
    made_in(tmp_path, *build.split())
    script = (
        f"import sys; sys.path.insert(0, '{tmp_path}'); import paint\n"
        "for x in range(3):\n"
        "    name = f'wall {x}'\n"
        "    print(f'paint_at(\"{name}\", GREEN, {{x={x}, y=1.5}}) = {paint.paint(name, x)}')\n"
    )
    out = tmp_path / "trace"
    words: list[str | Path] = ["-e", "paint_*", "-o", out, "--", sys.executable, "-c", script]
    done = run([*SOSCOPE, "trace", *words])
    assert done.returncode == 0, done.stderr
    shown = [line.partition("->")[2] for line in out.read_text().splitlines() if "->" in line]
    assert [re.sub(r"\) += ", ") = ", line) for line in shown] == done.stdout.splitlines()


def test_names_of_an_extension_in_cxx(tmp_path: Path) -> None:
    """An extension of Ruby, whose library has no debug information: the names tell."""
    ruby = need("ruby")
    (tmp_path / "init.cc").write_text(
        'int plugin_main();\nextern "C" void Init_plugin() { plugin_main(); }\n'
    )
    for command in (
        f"g++ -O1 -g0 -shared -fPIC {CXX / 'lib_cxx_names.cc'} -o libcxx_names.so",
        f"g++ -O1 -g0 {PLUGIN} {CXX / 'cxx_names.cc'} init.cc -o plugin.so -L. -lcxx_names",
    ):
        made_in(tmp_path, *command.split())
    out = tmp_path / "trace"
    choice: list[str | Path] = ["-l", "libcxx_names*", "--from", "plugin.so", "-o", out]
    done = run([*SOSCOPE, "trace", *choice, ruby, "-e", f"require '{tmp_path / 'plugin.so'}'"])
    assert done.returncode == 0, done.stderr
    calls = [line.partition("->")[2] for line in out.read_text().splitlines()]
    shown = [re.sub(r"^(\w+)<\w+>", r"\1", line.rpartition(") ")[0] + ")") for line in calls]
    assert [
        line
        for line in shown
        if line != ")"
        and not line.startswith(("shop::basket::~", *HIDDEN))
        and not any(name in line for name in HIDDEN)
    ] == done.stdout.splitlines()

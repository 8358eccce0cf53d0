# SPDX-License-Identifier: Apache-2.0
"""The doctor: what it says is what /proc, readelf, ldd and the programs themselves say."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import soscope
from tests.support.machines.tools import hides_processes, kernel_thread, need, not_here, yama
from tests.support.processes import launching
from tests.support.processes.others import as_nobody, assert_refused, drop
from tests.support.processes.run import run
from tests.support.schemas import checked as schema
from tests.support.schemas.doctor import DOCTOR
from tests.support.targets import build
from tests.support.targets.matrix import REPOSITORY, Cell
from tests.support.time.patience import limit

DOCTOR_WORDS = [sys.executable, "-m", "soscope", "doctor"]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")


def ask(
    *words: str | Path,
    status: int | None = 0,
    before: Sequence[str] = (),
    soscope: Sequence[str] = (),
) -> dict[str, Any]:
    """Ask for the document; check it and the exit status."""
    doctor = [*soscope, "doctor"] if soscope else DOCTOR_WORDS
    done = run([*before, *doctor, "--json", *map(str, words)])
    assert "Traceback" not in done.stderr
    assert status in (None, done.returncode), done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert not schema.wrong_members(document, DOCTOR)
    assert document["status"] == done.returncode
    return document


def findings(document: dict[str, Any]) -> dict[str, tuple[str, str, str | None]]:
    """Return name -> (state, text, repair) of everything in a document."""
    rows = [one for part in document["parts"] for one in part["findings"]]
    rows += (document["subject"] or {}).get("findings", [])
    return {row["name"]: (row["state"], row["text"], row["repair"]) for row in rows}


@contextlib.contextmanager
def running(*words: str | Path, sign: str = "") -> Iterator[int]:
    """Run a program in the background; `sign` is what it prints when it is ready."""
    process = subprocess.Popen(
        [*map(str, words)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if sign:
            assert process.stdout.readline().strip() == sign
        else:
            launching.wait_state(process.pid, "S")
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# ---- this system ---------------------------------------------------------------------


def test_the_system_is_looked_at_and_the_agent_tried() -> None:
    found = findings(ask())
    assert found["agent"][0] == "ok"
    state, text, _ = found["trial run"]
    assert state == "ok", text
    numbers = re.search(r"(\d+) slots hooked, (\d+) calls", text)
    assert numbers is not None
    assert int(numbers[1]) >= int(numbers[2]) > 0 or int(numbers[2]) > 0
    assert found["capabilities"][0] == ("ok" if os.geteuid() == 0 else "info")


def test_the_page_names_every_finding_once() -> None:
    names = findings(ask())
    done = run(DOCTOR_WORDS)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) < 60
    for name in names:
        assert sum(line[8:].startswith(f"{name} ") for line in lines) == 1, name


def test_the_processor_is_that_of_proc() -> None:
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert flags is not None
    has = set(flags[1].split())
    found = findings(ask())
    wide = found["vector registers"][1]
    assert ("AVX-512" in wide) == ("avx512f" in has)
    assert ("AMX" in wide) == ("amx_tile" in has)
    assert ("not offered" in found["CET"][1]) == (not has & {"ibt", "user_shstk", "shstk"})
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    steady = {"constant_tsc", "nonstop_tsc"} <= has and clock.read_text().strip() == "tsc"
    assert (found["time-stamp counter"][0] == "ok") == steady


def test_yama_is_that_of_proc() -> None:
    path = Path("/proc/sys/kernel/yama/ptrace_scope")
    _, text, _ = findings(ask())["Yama"]
    assert text.startswith(
        f"ptrace_scope {path.read_text().strip()}" if path.exists() else "not in"
    )


@ROOT
def test_without_root_the_lack_of_rights_is_said(public_path: Path) -> None:
    found = findings(ask(soscope=as_nobody(public_path)))
    state, text, repair = found["capabilities"]
    assert (state, repair) == ("info", "sudo soscope …")
    assert "only processes of nobody" in text
    assert found["ptrace of own children"][0] == "ok"
    assert found["trial run"][0] == "ok"


def test_ptrace_that_is_forbidden_is_found_out_by_trying() -> None:
    """Under a tracer that follows children nobody else can trace them."""
    strace = [need("strace"), "-f", "-o", "/dev/null"]
    found = findings(ask(before=strace))
    state, text, _ = found["ptrace of own children"]
    assert state == "limited"
    assert "traces it" in text
    state, text, _ = found["trial run"]
    assert state == "limited"
    assert "LD_PRELOAD" in text


@pytest.mark.every(2)
@pytest.mark.parametrize("agent", [None, b"junk"], ids=["missing", "damaged"])
def test_an_installation_without_an_agent_is_said(agent: bytes | None, tmp_path: Path) -> None:
    package = Path(soscope.__file__).parent
    copy = tmp_path / "soscope"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("_agent", "__pycache__"))
    if agent is not None:
        (copy / "_agent").mkdir()
        (copy / "_agent" / "libsoscope-agent.so").write_bytes(agent)
    words = [sys.executable, "-m", "soscope", "doctor", "--json"]
    for more in ([], [need("ls")]):
        done = run([*words, *more], env={"PYTHONPATH": str(tmp_path)})
        document = json.loads(done.stdout)
        assert not schema.wrong_members(document, DOCTOR)
        assert (done.returncode, document["status"], done.stderr) == (1, 1, "")
        found = findings(document)
        for name in ("prototypes", "trial run"):
            assert found[name][0] == "missing"
    rows = {one["name"]: one for one in document["parts"][0]["findings"]}
    assert rows["agent"]["state"] == "missing"
    assert "pip install" in rows["agent"]["repair"]


# ---- processes -----------------------------------------------------------------------

SLEEPER = """
    #include <stdio.h>
    #include <unistd.h>
    int main(void)
    {
        puts("ready");
        fflush(stdout);
        for (;;)
            pause();
    }"""


def sleeper(*flags: str) -> Path:
    return launching.compiled("sleeper.c", *flags, text=SLEEPER)


def mapped_code(pid: int) -> set[str]:
    """Return the files of which a process has executable pages."""
    rows = [line.split(None, 5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {row[5] for row in rows if "x" in row[1] and row[5:] and row[5].startswith("/")}


@pytest.mark.covering(1)
@pytest.mark.parametrize("binding", ["lazy", "now"])
@pytest.mark.parametrize("pie", ["pie", "no-pie"])
def test_a_process_is_what_readelf_and_proc_say(binding: str, pie: str) -> None:
    flags = ["-fPIE", "-pie"] if pie == "pie" else ["-fno-pie", "-no-pie"]
    program = sleeper("-fcf-protection=none", *flags, f"-Wl,-z,{binding}", "-Wl,-z,relro")
    with running(program, sign="ready") as pid:
        subject = ask("-p", str(pid))["subject"]
        assert {one["path"] for one in subject["images"]} == mapped_code(pid)
        state = launching.state(pid)
    assert state == "S"
    assert (subject["pid"], subject["path"]) == (pid, str(program))
    mapped = run([sys.executable, "-m", "soscope", "map", "--json", program])
    assert subject["machine"] == json.loads(mapped.stdout)["images"][0]["arch"] == "x86-64"
    position = "position-independent" if pie == "pie" else "not position-independent"
    assert subject["linkage"] == f"dynamic program, {position}"
    image = subject["images"][0]
    assert (image["path"], image["state"]) == (str(program), "hookable")
    assert image["binding"] == binding
    assert image["relro"] == ("full" if binding == "now" else "partial")
    version = run([need("getconf"), "GNU_LIBC_VERSION"]).stdout.split()
    assert [subject["libc"]["name"], subject["libc"]["version"]] == version
    loaders = [one for one in subject["images"] if one["name"].startswith("ld-linux")]
    assert [one["state"] for one in loaders] == ["not hookable"]


INTERPRETERS = [
    ("Python", "/usr/bin/python3", "-c", "import platform as p; print(p.python_version())"),
    ("Python", sys.executable, "-c", "import platform as p; print(p.python_version())"),
    ("Ruby", "ruby", "-e", "puts RUBY_VERSION"),
    ("Perl", "perl", "-e", 'printf "%vd", $^V'),
    ("Node.js", "node", "-e", "console.log(process.versions.node)"),
]
WAIT = {"Python": "input()", "Ruby": "gets", "Perl": "<STDIN>", "Node.js": "setInterval(x=>x,9e6)"}


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("name", "program", "flag", "asks"), INTERPRETERS, ids=lambda value: Path(value).name[:12]
)
def test_an_interpreter_is_known_under_any_name(
    name: str, program: str, flag: str, asks: str, tmp_path: Path
) -> None:
    real = os.path.realpath(need(program))
    version = run([real, flag, asks]).stdout.strip()
    other = tmp_path / "worker"
    shutil.copy(real, other)
    with running(real, flag, WAIT[name]) as pid:
        live = ask("-p", str(pid))["subject"]["interpreters"]
    # a library beside the program is not beside the copy
    status = 1 if "not found" in run([need("ldd"), other]).stdout else 0
    linked = ask(other, status=status)["subject"]["interpreters"]
    assert [one["name"] for one in live if one["is_main"]] == [name]
    assert [one["version"] for one in live if one["is_main"]] == [version]
    if linked:
        assert (linked[0]["name"], linked[0]["version"]) == (name, version)


def test_an_embedded_interpreter_is_not_the_program() -> None:
    subject = ask(need("gdb"))["subject"]
    embedded = {one["name"]: one["is_main"] for one in subject["interpreters"]}
    if "libpython" not in run([need("ldd"), need("gdb")]).stdout:
        not_here("a gdb with Python in it")
    assert embedded.get("Python") is False


def test_a_process_is_only_looked_at() -> None:
    with running(sleeper(), sign="ready") as pid:
        log = REPOSITORY / "build" / f"doctor-{pid}.log"
        log.parent.mkdir(exist_ok=True)
        try:
            calls = "ptrace,process_vm_writev,kill,tgkill,tkill,openat"
            ask("-p", str(pid), before=[need("strace"), "-f", "-e", calls, "-o", str(log)])
            told = log.read_text()
        finally:
            log.unlink(missing_ok=True)
        assert launching.state(pid) == "S"
    touching = [line for line in told.splitlines() if re.search(rf"\b{pid}\b", line)]
    assert touching
    assert all("openat" in line for line in touching)


def test_an_agent_in_a_process_is_named_with_its_owner() -> None:
    program = sleeper()
    words = [sys.executable, "-m", "soscope", "trace", "-o", "/dev/null", "--", str(program)]
    tracer = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "ready\n"
        child, *_ = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()
        document = ask("-p", child, status=1)
        assert findings(document)["soscope"][1] == f"soscope {tracer.pid} has its agent in it"
        assert findings(document)["agent"][1] == f"process {tracer.pid} traces it already"
    finally:
        os.kill(int(child), signal.SIGKILL)
        tracer.wait(20)
        assert tracer.stdout is not None
        tracer.stdout.close()


def test_what_a_killed_soscope_left_is_named_with_its_remedy() -> None:
    with running(sleeper(), sign="ready") as pid:
        words = [sys.executable, "-m", "soscope", "trace", "-c", "-o", "/dev/null", "-p", str(pid)]
        tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        try:
            for _ in range(400):
                if "soscope" in findings(ask("-p", str(pid), status=None)):
                    break
            found = findings(ask("-p", str(pid), status=None))
            assert found["soscope"][1] == f"soscope {tracer.pid} has its agent in it"
        finally:
            tracer.kill()
            tracer.wait()
        state, text, repair = findings(ask("-p", str(pid)))["soscope"]
        assert (state, repair) == ("limited", f"soscope detach -p {pid}")
        assert "has left its hooks" in text
        run([sys.executable, "-m", "soscope", "detach", "-p", str(pid)])
        state, text, repair = findings(ask("-p", str(pid)))["soscope"]
        assert (state, repair) == ("info", None)
        assert "without hooks" in text


def test_strict_seccomp_is_said() -> None:
    text = SLEEPER.replace("pause();", "syscall(0, 0, text, 1);")
    text = text.replace("puts(", "char text[9]; setvbuf(stdout, 0, _IONBF, 0); puts(", 1)
    text = text.replace("for (;;)", "prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); for (;;)")
    head = "#include <sys/prctl.h>\n#include <linux/seccomp.h>\n"
    program = launching.compiled("strict.c", text=head + text)
    with running(program, sign="ready") as pid:
        launching.wait_state(pid, "S")
        found = findings(ask("-p", str(pid), status=1))
    assert "strict seccomp" in found["agent"][1]


def test_musl_is_named_with_its_version() -> None:
    program = build.made({"sleeper.c": SLEEPER}, "musl-gcc sleeper.c -o sleeper") / "sleeper"
    loader = re.search(r"interpreter: (\S+?)\]", run([need("readelf"), "-l", str(program)]).stdout)
    assert loader is not None
    said = re.search(r"Version (\S+)", run([loader[1]]).stderr)
    assert said is not None
    with running(program, sign="ready") as pid:
        for subject in (ask("-p", str(pid))["subject"], ask(program)["subject"]):
            assert subject["libc"] == {"name": "musl", "version": said[1]}


# ---- who may not ---------------------------------------------------------------------


@ROOT
def test_a_process_of_somebody_else_is_refused_with_the_reason(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    with running(sleeper(), sign="ready") as pid:
        if hides_processes():
            assert_refused(run([*soscope, "doctor", "-p", str(pid)]), "")
            return
        document = ask("-p", str(pid), status=3, soscope=soscope)
    state, text, repair = findings(document)["permission"]
    assert (state, text, repair) == ("missing", "it belongs to user root", "sudo soscope …")


@ROOT
def test_a_process_that_is_not_dumpable_is_refused_with_the_reason(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    text = SLEEPER.replace("puts", "prctl(PR_SET_DUMPABLE, 0); puts", 1)
    program = public_path / "hidden"
    shutil.copy(launching.compiled("hidden.c", text="#include <sys/prctl.h>\n" + text), program)
    with running(*drop(), str(program), sign="ready") as pid:
        if hides_processes():
            assert_refused(run([*soscope, "doctor", "-p", str(pid)]), "")
            return
        document = ask("-p", str(pid), status=3, soscope=soscope)
    assert "it is not dumpable" in findings(document)["permission"][1]


@ROOT
def test_a_process_of_the_same_user_is_allowed(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    program = public_path / "plain"
    shutil.copy(sleeper(), program)
    with running(*drop(), str(program), sign="ready") as pid:
        document = ask("-p", str(pid), soscope=soscope)
    state, text, _ = findings(document)["permission"]
    assert state == ("missing" if yama() else "ok")
    assert ("Yama" in text) == bool(yama())
    assert document["subject"]["path"] == str(program)


@ROOT
def test_a_file_that_is_not_readable_is_refused(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    program = public_path / "secret"
    shutil.copy("/bin/true", program)
    program.chmod(0o711)
    done = run([*soscope, "doctor", str(program)])
    assert done.returncode == 3
    assert "cannot read" in done.stderr


@ROOT
def test_setuid_is_said(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    program = public_path / "su"
    shutil.copy("/bin/true", program)
    program.chmod(0o4755)
    document = ask(program, status=1, soscope=soscope)
    assert "set-user-id" in findings(document)["agent"][1]


# ---- processes that are none ---------------------------------------------------------


def test_a_zombie_is_called_one() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    try:
        launching.wait_state(child, "Z")
        assert "zombie" in findings(ask("-p", str(child), status=1))["agent"][1]
    finally:
        os.waitpid(child, 0)


def test_a_kernel_thread_is_called_one() -> None:
    pid = str(kernel_thread())
    assert "thread of the kernel" in findings(ask("-p", pid, status=1))["agent"][1]


def test_no_such_process() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    done = run([*DOCTOR_WORDS, "-p", str(child.pid)])
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"soscope: error: no process {child.pid}\n"


@pytest.mark.parametrize("words", [["-p", "x"], ["-p"], ["-p", "1", "file"], ["a", "b"], ["-x"]])
def test_wrong_words_are_a_usage_error(words: list[str]) -> None:
    done = run([*DOCTOR_WORDS, *words])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("soscope: error: ")


# ---- files ---------------------------------------------------------------------------

FILES = [
    ("/tmp", "is a directory"),
    ("/nosuch", "no such file"),
    ("/dev/null", "is no regular file"),
    ("/etc/passwd", "neither ELF file nor script"),
]


@pytest.mark.parametrize(("path", "said"), FILES, ids=[path for path, _ in FILES])
def test_what_is_no_program_is_said(path: str, said: str) -> None:
    done = run([*DOCTOR_WORDS, path])
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_and_an_empty_file_are_said(tmp_path: Path) -> None:
    pipe, empty = tmp_path / "pipe", tmp_path / "empty"
    os.mkfifo(pipe)
    empty.touch()
    for path, said in ((pipe, "is no regular file"), (empty, "empty")):
        done = run([*DOCTOR_WORDS, path], timeout=limit(20))
        assert done.returncode == 1
        assert said in done.stderr


def test_a_script_is_that_of_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env perl\nprint 1;\n")
    document = ask(script)
    assert os.path.realpath(document["subject"]["path"]) == os.path.realpath(need("perl"))
    assert document["subject"]["interpreters"][0]["name"] == "Perl"
    assert f"{script}: it is run by" in findings(document)["script"][1]


def test_a_program_of_another_machine_is_said() -> None:
    path = Path("/lib32/libc.so.6")
    if not path.exists():
        not_here("no 32-bit libraries")
    document = ask(path, status=1)
    assert "made for i386" in findings(document)["agent"][1]
    assert document["subject"]["machine"] == "i386"


def test_a_static_program_is_said() -> None:
    for flags in (["-static"], ["-static-pie"]):
        program = sleeper(*flags)
        document = ask(program, status=1)
        assert document["subject"]["linkage"].startswith("static program")
        assert findings(document)["agent"][1].startswith("static: it has no slots")
        assert document["subject"]["images"][0]["state"] == "not hookable"
        with running(program, sign="ready") as pid:
            live = ask("-p", str(pid), status=1)
        assert "static" in findings(live)["agent"][1]


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    library, program = tmp_path / "libgone.so", tmp_path / "program"
    (tmp_path / "gone.c").write_text("int gone(void) { return 1; }")
    (tmp_path / "program.c").write_text("int gone(void); int main(void) { return gone(); }")
    build.made_in(tmp_path, "gcc", "gone.c", "-shared", "-fPIC", "-o", library)
    build.made_in(tmp_path, "gcc", "program.c", library, "-Wl,-rpath,$ORIGIN", "-o", program)
    assert "libgone.so" in [one["name"] for one in ask(program)["subject"]["images"]]
    library.unlink()
    found = findings(ask(program, status=1))
    name = next(name for name in found if name.endswith("libgone.so"))
    assert found[name][0] == "missing"
    assert "program needs it" in found[name][1]


def test_nothing_of_a_file_is_run() -> None:
    """Neither its loader nor a constructor of a library."""
    source = """
        #include <fcntl.h>
        __attribute__((constructor)) static void run(void) { creat(MARK, 0600); }
        int main(void) { return 0; }"""
    folder = build.made(
        {"loader": '#!/bin/sh\ntouch "${0%loader}ran"\n', "program.c": source},
        "chmod 755 loader",
        ["gcc", '-DMARK="{here}/ran"', "-Wl,--dynamic-linker={here}/loader", "program.c"],
    )
    program, loader, mark = folder / "a.out", folder / "loader", folder / "ran"
    mark.unlink(missing_ok=True)
    document = ask(program, status=1)
    assert document["subject"]["loader"] == str(loader)
    assert not mark.exists()


@pytest.mark.parametrize("binding", ["lazy", "no-plt", "ibt"])
def test_images_of_a_file_are_as_readelf_says(binding: str) -> None:
    program = build.program("calls", Cell(binding=binding))
    image = ask(program)["subject"]["images"][0]
    text = run([need("readelf"), "-rW", str(program)]).stdout
    assert image["calls"] == len(re.findall(r"R_X86_64_JUMP_SLO", text))
    weak = r"__gmon_start__|_ITM_\w+TMCloneTable|_Jv_RegisterClasses"
    rows = re.findall(r"R_X86_64_GLOB_DAT\s+\S+\s+(\w+)", text)
    assert image["loads"] == len([name for name in rows if not re.fullmatch(weak, name)])
    notes = run([need("readelf"), "-nW", str(program)]).stdout
    assert ("IBT" in image["features"]) == ("IBT" in notes)


def test_names_cannot_write_other_lines(tmp_path: Path) -> None:
    program = tmp_path / "two\nlines\x1b[31m"
    shutil.copy("/bin/true", program)
    done = run([*DOCTOR_WORDS, program])
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert r"two\x0alines\x1b[31m" in done.stdout.splitlines()[0]

# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around a traced program, what soscope says of it, and what the program sees."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from soscope.recording.reader import RecordingFile
from tests.support.machines.tools import need, not_here
from tests.support.processes import launching
from tests.support.processes.others import NOBODY, as_nobody
from tests.support.processes.run import run
from tests.support.time.patience import limit

TRACE = [sys.executable, "-m", "soscope", "trace"]
BUSY = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    int main(void)
    {
        for (int i = 0; i < 20000; i++)
            free(strdup("x"));
        puts("done");
        return 6;
    }"""


def busy() -> str:
    return str(launching.compiled("busy.c", text=BUSY))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that has room for 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        not_here("no file system can be mounted")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_recording_on_a_full_disk_says_what_it_lost(small_disk: Path) -> None:
    file = small_disk / "run.sosr"
    done = run([*TRACE, "--record", str(file), "--", busy()])
    assert (done.returncode, done.stdout) == (6, "done\n")
    assert f"cannot write '{file}': No space left on device" in done.stderr
    assert "events dropped: the recording could not be written" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.endswith("dropped")
    with RecordingFile.open(file) as recording:
        assert not recording.complete
        assert recording.losses.file_entries > 0


def test_text_on_a_full_disk_says_what_is_missing(small_disk: Path) -> None:
    file = small_disk / "text"
    done = run([*TRACE, "-o", str(file), "--", busy()])
    assert (done.returncode, done.stdout) == (6, "done\n")
    assert f"cannot write {file}: no space left on device; " in done.stderr
    assert " lines are missing" in done.stderr


def test_a_recording_into_a_pipe_is_not_offered_for_reading(tmp_path: Path) -> None:
    for device in ("/dev/null", tmp_path / "pipe"):
        if not os.path.exists(device):
            os.mkfifo(device)
            reader = subprocess.Popen(["cat", device], stdout=subprocess.PIPE)
        done = run([*TRACE, "--record", str(device), "--", "/bin/true"])
        assert done.returncode == 0
        assert "soscope report" not in done.stderr
    assert reader.communicate(timeout=limit(20))[0].startswith(b"SOSR")


def test_a_signal_at_the_parents_death_stays_asked_for() -> None:
    text = """
        #include <stdio.h>
        #include <sys/prctl.h>
        int main(void)
        {
            int number = -1;
            prctl(PR_GET_PDEATHSIG, &number);
            return number;
        }"""
    program = launching.compiled("deathsig.c", text=text)
    setpriv = need("setpriv")
    for words in ([], ["--pdeathsig", "HUP"], ["--pdeathsig", "KILL"]):
        before = [setpriv, *words] if words else []
        wanted = run([*before, str(program)]).returncode
        traced = run([*before, *TRACE, "-q", "-o", os.devnull, "--", str(program)]).returncode
        assert traced == wanted


@pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
def test_a_child_that_lost_its_rights_is_named(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    program = public_path / "setuid"
    shutil.copy(launching.launched(), program)
    program.chmod(0o4755)
    script = ["sh", "-c", f"{program} state; exit 3"]
    done = run([*soscope, "trace", "-o", os.devnull, "--", *script])
    assert done.returncode == 3
    assert f"ids {NOBODY} 0 " in done.stdout
    done = run([*soscope, "trace", "-f", "-o", os.devnull, "--", *script])
    assert done.returncode == 3
    assert f"ids {NOBODY} {NOBODY} " in done.stdout
    assert f"{program} ran untraced: it should have gained privileges, but -f" in done.stderr


def test_a_debugger_below_f_is_named() -> None:
    strace = need("strace")
    words = [strace, "-o", os.devnull, "/bin/true"]
    assert run([*TRACE, "-q", "-o", os.devnull, "--", *words]).returncode == 0
    done = run([*TRACE, "-f", "-o", os.devnull, "--", *words])
    assert f"{os.path.realpath(strace)}: it cannot trace what it starts, because -f" in done.stderr


def test_counts_where_addresses_are_scarce(tmp_path: Path) -> None:
    """Whatever the limit allows: the program does what it does, and counts are right or none."""
    file = tmp_path / "counts.json"
    for most in (60000, 100000, 200000, 400000):
        shell = ["sh", "-c", f'ulimit -v {most}; exec "$@"', "sh"]
        if run([*shell, sys.executable, "-c", ""]).returncode:
            continue
        file.unlink(missing_ok=True)
        trace = [*TRACE, "-c", "--json", "-e", "strdup", "-o", str(file), "--", busy()]
        done = run([*shell, *trace])
        assert (done.returncode, done.stdout) == (6, "done\n"), done.stderr
        rows = json.loads(file.read_text())["rows"]
        assert [row["calls"] for row in rows] in ([], [20000])
        assert rows or "ran untraced" in done.stderr


@pytest.mark.parametrize(
    ("mode", "most"), [("-c", 190_000), ("--count-only", 140_000), ("-T", 150_000)]
)
def test_a_followed_program_whose_addresses_are_scarce(
    mode: str, most: int, tmp_path: Path
) -> None:
    """The limit is that of the program alone: soscope's own says nothing of it."""
    out = tmp_path / "out"
    program = busy()
    shell = ["sh", "-c", f'ulimit -v {most}; exec "$@"', "sh"]
    words = ["-f", mode, "-e", "strdup", "--from", os.path.basename(program), "-o", str(out)]
    done = run([*TRACE, *words, "--", *shell, program])
    assert (done.returncode, done.stdout) == (6, "done\n"), done.stderr
    assert "ran untraced" not in done.stderr
    text = out.read_text()
    if mode == "-T":
        assert len(re.findall(r"\bstrdup\(", text)) == 20000
    else:
        assert re.search(r"\b20,?000\b.* strdup", text), text


LIMITED = """
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/resource.h>
    static void *take(void *room) { return malloc(200000); }
    int main(void)
    {
        struct rlimit limit = {6000000, 6000000};
        pthread_attr_t small;
        pthread_t threads[4];
        setrlimit(RLIMIT_DATA, &limit);
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 65536);
        for (int i = 0; i < 4; i++) {
            void *got = NULL;
            if (pthread_create(&threads[i], &small, take, NULL) ||
                pthread_join(threads[i], &got) || !got)
                return 1;
            free(got);
        }
        void *more = malloc(1500000);
        puts(more ? "room" : "none");
        free(more);
        return 5;
    }"""


@pytest.mark.parametrize("mode", ["-c", "--count-only", "-T"])
def test_the_agent_takes_nothing_of_a_small_data_limit(mode: str) -> None:
    program = launching.compiled("limited.c", "-pthread", text=LIMITED)
    done = run([*TRACE, mode, "-e", "malloc,free", "-o", os.devnull, "--", str(program)])
    assert (done.returncode, done.stdout) == (5, "room\n"), done.stderr
    assert "dropped" not in done.stderr.splitlines()[-1]
    assert "ran untraced" not in done.stderr


LOCKS = """
    #include <stdio.h>
    #include <sys/mman.h>
    int main(int argc, char **argv)
    {
        int failed = argc > 1 && mlockall(MCL_CURRENT | MCL_FUTURE);
        puts(failed ? "refused" : "locked");
        return 3;
    }"""


@pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
def test_memory_that_can_be_locked_is_locked(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    drop = soscope[: soscope.index("--clear-groups") + 1]
    program = public_path / "locks"
    shutil.copy(launching.compiled("locks.c", text=LOCKS), program)
    program.chmod(0o755)
    limit = [*drop, "sh", "-c", 'ulimit -l 8000 && exec "$@"', "sh"]
    if run([*limit, str(program), "x"]).stdout != "locked\n":
        not_here("no 8 MB can be locked")
    for words in ([], ["-f"], ["-c"]):
        trace = [*soscope, "trace", *words, "-o", os.devnull, "--"]
        done = run([*limit, *trace[len(drop) :], str(program), "x"])
        assert (done.returncode, done.stdout) == (3, "locked\n")
        assert f"{program} ran untraced: it calls mlockall" in done.stderr
    done = run([*TRACE, "-o", os.devnull, "--", str(program), "x"])
    assert done.stdout == run([str(program), "x"]).stdout


LOCKED = """
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    int main(void)
    {
        char line[128];
        FILE *status;
        if (mlockall(MCL_CURRENT | MCL_FUTURE) || !(status = fopen("/proc/self/status", "r")))
            return 1;
        while (fgets(line, sizeof(line), status))
            if (!strncmp(line, "RssShmem:", 9))
                fputs(line, stdout);
        return 3;
    }"""


@pytest.mark.every(2)
@pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
@pytest.mark.parametrize("mode", [[], ["-c"], ["--count-only"]])
def test_a_program_that_locks_its_memory_fills_few_count_arrays(mode: list[str]) -> None:
    """There are a thousand of them, and each has room for every slot."""
    program = str(launching.compiled("locked.c", text=LOCKED))
    done = run([*TRACE, *mode, "-o", os.devnull, "--", program])
    assert done.returncode == 3, done.stderr
    assert int(done.stdout.split()[1]) < 400 << 10  # KiB


@pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
@pytest.mark.parametrize("forbidden", [[], ["-m", "tests.support.processes.forbid", "ptrace"]])
def test_without_proc_the_program_runs(forbidden: list[str]) -> None:
    hidden = [need("unshare"), "-m", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"]
    if run([*hidden, busy()]).returncode != 6:
        not_here("/proc cannot be hidden")
    before = [*hidden, *([sys.executable, *forbidden] if forbidden else [])]
    for words in ([], ["-f"], ["-c"]):
        trace = [*TRACE, *words, "-o", os.devnull, "--"]
        done = run([*before, *trace, busy()], env=launching.environment())
        assert (done.returncode, done.stdout) == (6, "done\n"), done.stderr
        assert "ran untraced" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
def test_the_doctor_says_that_there_is_no_proc() -> None:
    hidden = [need("unshare"), "-m", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"]
    if run([*hidden, busy()]).returncode != 6:
        not_here("/proc cannot be hidden")
    done = run([*hidden, sys.executable, "-m", "soscope", "doctor"], env=launching.environment())
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search("^  NO    /proc +not mounted$", done.stdout, re.MULTILINE)


def test_a_static_program_says_so_without_ptrace_too() -> None:
    before = [sys.executable, "-m", "tests.support.processes.forbid", "ptrace"]
    program = str(launching.launched("-static"))
    done = run([*before, *TRACE, "--", program, "exit", "5"], env=launching.environment())
    assert done.returncode == 5
    assert "statically linked" in done.stderr

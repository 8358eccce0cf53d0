# SPDX-License-Identifier: Apache-2.0
"""-f: the agent goes into everything that the command and its children execute."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machines.tools import for_admin, namespaces, need, not_here
from tests.support.processes import launching
from tests.support.processes.launching import launch, launched, plain
from tests.support.time.patience import limit

MODES = ("plain", "stay", "follow")
NOBODY = 65534


def test_children_of_every_kind_get_the_agent() -> None:
    outcome = launch(launched(), "family", mode="follow")
    assert outcome.returncode == plain(launched(), "family").returncode == 17
    programs = outcome.programs
    assert [program["reason"] for program in programs] == [None] * 7
    assert len({program["pid"] for program in programs}) == 7
    assert len(outcome.events("fork")) == 7
    assert len(outcome.events("exec")) == 6
    assert sorted(status for _, status, _ in outcome.events("exit")) == [2, 2, 2, 2, 2, 3, 4, 17]
    bases = [program["answer"][0] for program in programs]
    assert all(bases)


@pytest.mark.parametrize("mode", ["plain", "stay"])
def test_without_follow_children_are_left_alone(mode: str) -> None:
    outcome = launch(launched(), "family", mode=mode)
    assert outcome.returncode == 17
    assert len(outcome.programs) == 1
    assert not outcome.events("fork")


@pytest.mark.parametrize("mode", MODES)
def test_a_shell_with_pipes_prints_what_it_prints(mode: str) -> None:
    script = "for i in 1 2 3; do echo $i | cat | sed s/^/x/; done; (exit 6); echo $?; kill -9 $$"
    outcome = launch("/bin/bash", "-c", script, mode=mode)
    reference = plain("/bin/bash", "-c", script)
    assert (outcome.returncode, outcome.stdout) == (reference.returncode, reference.stdout)
    if mode == "follow":
        names = sorted(os.path.basename(program["path"]) for program in outcome.programs)
        assert names == ["bash", "cat", "cat", "cat", "sed", "sed", "sed"]
        assert {program["reason"] for program in outcome.programs} == {None}


def test_a_chain_of_execs_is_followed(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nexec {launched()} exit 9\n")
    script.chmod(0o755)
    outcome = launch(launched(), "exec", script, mode="follow")
    assert outcome.returncode == 9
    assert [program["reason"] for program in outcome.programs] == [None] * 3
    assert len({program["pid"] for program in outcome.programs}) == 1
    assert [event[0] for event in outcome.report["events"]] == ["start", "exec", "exec", "exit"]


def test_static_and_scripted_children_say_why() -> None:
    script = f"{launched('-static')} exit 3; echo $?; {launched()} exit 4; echo $?"
    outcome = launch("/bin/sh", "-c", script + "; exit 5", mode="follow")
    assert (outcome.returncode, outcome.stdout) == (5, "3\n4\n")
    assert [program["reason"] for program in outcome.programs] == [None, "static", None]


def test_a_static_command_is_followed_too() -> None:
    static = launched("-static")
    outcome = launch(static, "exec", launched(), "exit", "6", mode="follow")
    assert outcome.returncode == 6
    assert [program["reason"] for program in outcome.programs] == ["static", None]


def test_a_daemon_is_waited_for() -> None:
    script = "(sleep 0.3; exit 3) & exit 4"
    outcome = launch("/bin/sh", "-c", script, mode="follow")
    assert outcome.returncode == 4
    assert sorted(status for _, status, _ in outcome.events("exit")) == [0, 3, 4]


def test_children_of_the_caller_are_not_taken_from_it() -> None:
    """`launch` as a library: its process may have children of its own."""
    code = """
import subprocess, sys
from soscope.control.launch import launch
from tests.support.processes.launcher import make_block
mine = [subprocess.Popen(["/bin/sh", "-c", f"sleep 0.{i}; exit {i}"]) for i in range(4)]
target = launch(["/bin/sh", "-c", "/bin/true; sleep 0.2; /bin/true"], make_block, follow=True,
                agent=sys.argv[1])
assert target.run().status == 0
assert len(target.programs) == 4, target.programs
assert [child.wait() for child in mine] == [0, 1, 2, 3]
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(launching.mini_agent())],
        env=launching.environment(),
        timeout=limit(),
        check=False,
    )
    assert done.returncode == 0


def test_a_tick_that_fails_lets_everything_go() -> None:
    code = """
import os, sys
from soscope.control.launch import launch
from tests.support.processes.launcher import make_block
target = launch(["/bin/sh", "-c", "sleep 0.5; echo alive"], make_block, follow=True,
                agent=sys.argv[1])
def tick():
    raise ZeroDivisionError
try:
    target.run(tick)
except ZeroDivisionError:
    print("raised", flush=True)
assert os.waitpid(target.pid, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(launching.mini_agent())],
        env=launching.environment(),
        timeout=limit(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("raised\nalive\n", "")


def test_a_storm_of_children_leaves_time_for_the_rest() -> None:
    """There is always another event; the recording has to be read all the same."""
    text = """
        #include <sys/wait.h>
        #include <time.h>
        #include <unistd.h>
        int main(void)
        {
            time_t end = time(0) + 4;
            for (int i = 0; i < 100; i++)
                if (!fork()) {
                    while (time(0) < end) {
                        if (!fork())
                            _exit(0);
                        wait(0);
                    }
                    _exit(0);
                }
            while (wait(0) > 0)
                ;
            return 5;
        }"""
    code = """
import sys
from soscope.control.launch import launch
from tests.support.processes.launcher import Notes, make_block
notes = Notes()
target = launch([sys.argv[2]], make_block, follow=True, agent=sys.argv[1], events=notes)
seen = []  # at each tick, how many events there have been
target.run(lambda: seen.append(len(notes.events)))
assert target.exit.status == 5
middle = [count for count in seen if 200 < count < len(notes.events) - 200]
print(len(middle))
"""
    program = launching.compiled("storm.c", text=text)
    done = subprocess.run(
        [sys.executable, "-c", code, str(launching.mini_agent()), str(program)],
        env=launching.environment(),
        timeout=limit(120),
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(done.stdout) >= 4  # ticks; without a bound there is none until the storm is over


@for_admin("reading seccomp filters")
def test_a_program_with_a_filter_that_allows_all_gets_the_agent() -> None:
    text = """
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        int main(int argc, char **argv)
        {
            struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
            struct sock_fprog filter = {1, &code};
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
                return 77;
            return execv(argv[1], argv + 1) + argc;
        }"""
    program = launching.compiled("filter.c", text=text)
    outcome = launch(program, launched(), "exit", "3", mode="follow")
    if outcome.returncode == 77:
        not_here("no seccomp filters")
    assert outcome.returncode == 3
    assert [program["reason"] for program in outcome.programs] == [None, None]


# ---- where the descriptors cannot be handed over by a path -------------------


def is_root() -> bool:
    """Return whether namespaces, roots and owners can be changed."""
    return os.geteuid() == 0


@pytest.mark.skipif(not is_root(), reason="not here: needs root")
def test_another_process_namespace_is_followed() -> None:
    command = [*namespaces("-m", "-pf", "--mount-proc"), str(launched()), "exit", "3"]
    outcome = launch(*command, mode="follow")
    assert outcome.returncode == 3
    assert [program["reason"] for program in outcome.programs] == [None, None]
    assert outcome.programs[1]["answer"][0]


@pytest.mark.skipif(not is_root(), reason="not here: needs root")
def test_another_root_without_proc_is_followed(tmp_path: Path) -> None:
    program = launched()
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    files = [word for line in needed.splitlines() for word in line.split() if word[0] == "/"]
    for file in (str(program), *files):
        copy = tmp_path / file.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    outcome = launch(need("chroot"), tmp_path, program, "exit", "3", mode="follow")
    assert outcome.returncode == 3
    assert [program["reason"] for program in outcome.programs] == [None, None]


# ---- programs with more rights than ours -------------------------------------


AS_NOBODY = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=-all",
)


def can_run_python_as_nobody() -> bool:
    """Return whether another user can read the interpreter and the sources."""
    command = [*AS_NOBODY, sys.executable, "-c", "import tests.support.processes.launcher"]
    return (
        subprocess.run(
            command, env=launching.environment(), check=False, capture_output=True
        ).returncode
        == 0
    )


@pytest.mark.covering(1)
@pytest.mark.skipif(not is_root(), reason="not here: needs root")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mode_bits", [0o4755, 0o2755])
def test_a_setuid_program_keeps_its_rights(public_path: Path, mode: str, mode_bits: int) -> None:
    if not can_run_python_as_nobody():
        not_here("another user cannot run this interpreter")
    program = public_path / "setuid"
    shutil.copy(launched(), program)
    program.chmod(mode_bits)
    agent = public_path / "agent.so"
    shutil.copy(launching.mini_agent(), agent)
    agent.chmod(0o755)
    outcome = launch(program, "state", mode=mode, prefix=AS_NOBODY, agent=agent)
    user, group = (0, NOBODY) if mode_bits & stat.S_ISUID else (NOBODY, 0)
    assert f"ids {NOBODY} {user} {NOBODY} {group}\n" in outcome.stdout, outcome.stderr
    assert "TracerPid:\t0\n" in outcome.stdout
    assert outcome.reason == "setuid"


@pytest.mark.skipif(not is_root(), reason="not here: needs root")
def test_setuid_to_another_user_as_root(tmp_path: Path) -> None:
    program = tmp_path / "setuid"
    shutil.copy(launched(), program)
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    for mode in MODES:
        outcome = launch(program, "state", mode=mode)
        assert outcome.reason == "setuid"
        assert f"ids 0 {NOBODY} 0 0\n" in outcome.stdout
        assert "TracerPid:\t0\n" in outcome.stdout
    outcome = launch("/bin/sh", "-c", f"{program} state; exit 3", mode="follow")
    assert outcome.returncode == 3
    assert [one["reason"] for one in outcome.programs] == [None, "setuid"]
    assert f"ids 0 {NOBODY} 0 0\n" in outcome.stdout

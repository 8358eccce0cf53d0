# SPDX-License-Identifier: Apache-2.0
"""The way of a call: what gdb, readelf and objdump say of the same process and files."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes import launching
from tests.support.processes.run import run
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.explain import EXPLAIN_PROCESS
from tests.support.targets import mapped
from tests.support.time.patience import limit

EXPLAIN = [sys.executable, "-m", "soscope", "explain"]

CALLER = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <time.h>
    int main(void)
    {
        char *copy = strdup("x");
        puts(copy && time(NULL) ? "ready" : "");
        fflush(stdout);
        getchar();
        return abs(copy[0]);
    }"""


def caller(binding: str) -> Path:
    return launching.compiled("ways.c", "-fno-builtin", *mapped.BUILDS[binding], text=CALLER)


@contextlib.contextmanager
def started(program: Path, env: Mapping[str, str] | None = None) -> Iterator[int]:
    with mapped.started(program, env=env) as process:
        yield process.pid


def ways(pid: int, *words: str) -> list[dict[str, Any]]:
    done = run([*EXPLAIN, "--json", "-p", str(pid), *words])
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert wrong_members(document, EXPLAIN_PROCESS) == []
    assert document["pid"] == pid
    listed: list[dict[str, Any]] = document["ways"]
    assert [(one["name"], one["path"]) for one in document["images"]] == [
        (listed[0]["importer"], listed[0]["importer_path"])
    ]
    return listed


def gdb(pid: int, *commands: str) -> str:
    words = [need("gdb"), "-nx", "-batch", "-p", str(pid)]
    for command in ("set debuginfod enabled off", *commands):
        words += ["-ex", command]
    return run(words).stdout


@pytest.mark.every(3)
@pytest.mark.parametrize("binding", mapped.BUILDS)
@pytest.mark.parametrize("symbol", ["strdup", "abs"])
def test_every_step_is_what_other_tools_say(binding: str, symbol: str) -> None:
    program = caller(binding)
    with started(program) as pid:
        (way,) = ways(pid, symbol)
        bias = int(way["load_bias"], 16)
        slot = way["slot"]
        said = gdb(pid, f"x/gx {slot['addr']}", f"p &{symbol}", f"x/3gx {way['link_map']}")
    assert (way["importer"], way["importer_path"]) == (program.name, str(program))
    # the link map entry begins with the load bias and the address of the name
    entry = re.search(rf"^{way['link_map']}[^:]*:\s+(0x[0-9a-f]+)", said, re.MULTILINE)
    assert entry is not None
    assert int(entry[1], 16) == bias
    # the relocation
    table = run([need("readelf"), "-rW", str(program)]).stdout
    rows = re.findall(r"^([0-9a-f]+) +([0-9a-f]+) (R_X86_64_\w+) +\S+ (\w+)", table, re.MULTILINE)
    (row,) = [row for row in rows if row[3] == symbol]
    relocation = way["relocation"]
    assert relocation["type"].startswith(row[2])
    assert int(relocation["r_offset"], 16) == int(row[0], 16)
    assert relocation["symbol_index"] == int(row[1], 16) >> 32
    assert int(slot["addr"], 16) == int(row[0], 16) + bias
    assert relocation["aimed_at"] == slot["addr"]
    # the code that goes through it
    kind = "call" if binding == "no-plt" else "stub"
    code = run([need("objdump"), "-d", "--no-show-raw-insn", str(program)]).stdout
    target = rf"# {int(row[0], 16):x} <"
    through = re.findall(rf"^ +([0-9a-f]+):\t.*(?:call|jmp) .*{target}", code, re.MULTILINE)
    uses = [one for one in way["uses"] if one["kind"] == kind]
    assert len(uses) == len(through) > 0
    jumps = {int(one["displacement"], 16) - bias - 2 for one in uses}
    # objdump names the instruction by its prefix, where it has one
    assert all(any(at - 1 <= int(one, 16) <= at for one in through) for at in jumps)
    if binding == "ibt":
        assert all(one["code"].startswith("f30f1efa") for one in uses)
    # the slot and the definition
    content = re.search(rf"^{slot['addr']}[^:]*:\s+(0x[0-9a-f]+)", said, re.MULTILINE)
    assert content is not None
    assert int(content[1], 16) == int(slot["value"], 16)
    is_unbound = symbol == "abs" and binding in ("lazy", "ibt", "not-pie")
    assert slot["state"] == ("unbound" if is_unbound else "bound")
    address = re.search(r"(0x[0-9a-f]+) <", said.partition("$1 =")[2])
    assert address is not None
    assert int(way["definition"], 16) == int(address[1], 16)
    assert ("w" in slot["page"]) == (binding in ("lazy", "ibt", "not-pie"))


@pytest.mark.every(4)
@pytest.mark.parametrize("binding", mapped.BUILDS)
def test_a_hook_is_where_it_was_foretold(binding: str, tmp_path: Path) -> None:
    """What is said before of a traced program is what stands there when it is traced."""
    program = caller(binding)
    with started(program) as pid:
        (before,) = ways(pid, "strdup", "--from", "MAIN")
    words = [sys.executable, "-m", "soscope", "trace", "-o", str(tmp_path / "out"), "--", program]
    process = subprocess.Popen(
        [*map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        child, *_ = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (after,) = ways(int(child), "strdup", "--from", "MAIN")
        text = run([*EXPLAIN, "-p", child, "strdup"]).stdout
        process.communicate("\n", timeout=limit())
    assert "the slot at" in " ".join(before["hook"])
    assert "entry trampoline" in " ".join(before["hook"])
    assert after["slot"]["state"] == "hooked"
    assert after["slot"]["to_image"] == "soscope's agent"
    assert after["hook"] == ["it is hooked already, by soscope's agent"]
    assert "hooked: it leads to soscope's agent" in " ".join(text.split())
    offsets = [int(one["slot"]["addr"], 16) - int(one["load_bias"], 16) for one in (before, after)]
    assert offsets[0] == offsets[1]


def test_an_ifunc_is_said_to_be_one() -> None:
    with started(caller("now")) as pid:
        (way,) = ways(pid, "time")
        text = run([*EXPLAIN, "-p", str(pid), "time"]).stdout
        said = gdb(pid, "info symbol " + way["definition"])
    assert way["is_ifunc"]
    assert way["slot"]["state"] == "bound"
    assert way["slot"]["value"] != way["definition"]
    assert "time" in said
    assert "an IFUNC's resolver" in text


def test_the_importer_is_chosen_and_the_others_are_named() -> None:
    with started(caller("lazy")) as pid:
        (way,) = ways(pid, "malloc")  # the program does not call it
        assert way["importer"].startswith("libc.so")
        assert ways(pid, "malloc", "--from", way["importer_path"]) == [way]
        done = run([*EXPLAIN, "-p", str(pid), "--from", "MAIN", "malloc"])
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"soscope: MAIN has no slot for 'malloc'; {way['importer']} has one\n"
        done = run([*EXPLAIN, "-p", str(pid), "--from", "libnosuch.so", "malloc"])
        assert done.returncode == 1
        assert done.stderr.startswith(f"soscope: error: no image 'libnosuch.so' in process {pid}\n")
        done = run([*EXPLAIN, "-p", str(pid), "no_such_symbol"])
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "soscope: no image has a slot for 'no_such_symbol'\n"


def test_versions_choose() -> None:
    with started(caller("lazy")) as pid:
        assert ways(pid, "strdup@GLIBC_2.2.5") == ways(pid, "strdup")
        assert run([*EXPLAIN, "-p", str(pid), "strdup@GLIBC_9"]).returncode == 1


def test_the_text_has_the_addresses() -> None:
    with started(caller("lazy")) as pid:
        (way,) = ways(pid, "abs")
        text = run([*EXPLAIN, "-p", str(pid), "abs"]).stdout
    for address in (
        way["link_map"],
        way["load_bias"],
        way["relocation"]["addr"],
        way["uses"][0]["addr"],
        way["slot"]["addr"],
        way["slot"]["value"],
        way["definition"],
    ):
        assert address in text
    assert "unbound" in text
    said = " ".join(text.split())  # long lines are broken
    notes = [note for step in way["steps"] for note in step["notes"]]
    assert all(note in said for note in notes)
    assert set(way["hook"]) <= set(notes)


def test_file_and_process_are_told_in_the_same_words() -> None:
    """The same slot, told of the file and of the process: members that both know are equal."""
    program = caller("lazy")
    with started(program) as pid:
        (live,) = ways(pid, "abs")
        texts = [
            run([*EXPLAIN, *words]).stdout for words in (["-p", str(pid), "abs"], [program, "abs"])
        ]
    (plan,) = json.loads(run([*EXPLAIN, "--json", program, "abs"]).stdout)["ways"]
    assert list(live) == list(plan)
    assert list(live["slot"]) == list(plan["slot"])
    both = [name for name in live if live[name] is not None and plan[name] is not None]
    assert [name for name in both if live[name] != plan[name]] == ["slot", "steps"]
    shared = ("slot", "kind", "symbol", "version")
    assert [live["slot"][name] for name in shared] == [plan["slot"][name] for name in shared]
    for text, way in zip(texts, (live, plan), strict=True):
        heads = [f"{number:2}  {step['title']}" for number, step in enumerate(way["steps"], 1)]
        lines = text.splitlines()
        assert all(any(line.startswith(head) for line in lines) for head in heads)


def test_the_text_fits_its_columns() -> None:
    with started(caller("lazy")) as pid:
        text = run([*EXPLAIN, "-p", str(pid), "--width", "60", "abs"]).stdout
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize(
    "words", [[], ["x"], ["-p", "1"], ["-p", "1", "a", "b"], ["-p", "1", "@V"]]
)
def test_wrong_words_are_a_usage_error(words: list[str]) -> None:
    done = run([*EXPLAIN, *words])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("soscope: error: ")


def test_no_hook_is_told_of_the_loaders_own_calls(tmp_path: Path) -> None:
    program = caller("lazy")
    with started(program) as pid:
        done = run([sys.executable, "-m", "soscope", "map", "--json", "-p", str(pid)])
        images = json.loads(done.stdout)["images"]
        loader = next(one for one in images if one["name"].startswith("ld-"))
        for slot in loader["slots"]:
            (way,) = ways(pid, slot["symbol"], "--from", loader["name"])
            assert way["hook"] == ["none: the loader's own calls are left alone"]
    words = [sys.executable, "-m", "soscope", "trace", "-c", "-v", "--from", "all"]
    done = run([*words, "-o", str(tmp_path / "out"), "--", "/bin/true"])
    assert f"{loader['name']}: 0 slots hooked" in done.stderr


WEAK = """
    #include <stdio.h>
    extern void nowhere(void) __attribute__((weak));
    int main(void)
    {
        puts("ready");
        fflush(stdout);
        if (getchar() == 'x')
            nowhere();
        return 0;
    }"""


def test_no_hook_is_told_of_what_nobody_defines() -> None:
    program = launching.compiled("weakly.c", "-Wl,-z,now", "-fplt", text=WEAK)
    with started(program) as pid:
        (way,) = ways(pid, "nowhere")
        words = [sys.executable, "-m", "soscope", "trace", "--count-only", "--json", "-p", str(pid)]
        done = run([*words, "-v", "--duration", "50ms", "-e", "nowhere,puts"])
    assert (way["slot"]["value"], way["definition"]) == ("0x0", None)
    assert way["hook"] == ["none: no image defines it, so there is nothing to call"]
    assert "through 1 slot of weakly" in done.stderr  # that of puts

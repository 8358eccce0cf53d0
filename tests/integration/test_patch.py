# SPDX-License-Identifier: Apache-2.0
"""Functions of one's own in a running process: in place, from where, under others, undone.

The target says itself what it hears; slots are compared byte for byte with what they were.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import attached
from tests.support.processes.patching import (
    ask,
    instead,
    is_mapped,
    patch,
    say,
    soscope,
    target,
    undo,
)
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.targets.covering import sizes
from tests.support.targets.matrix import PLAIN, Cell
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

OWN, INSTEAD, BY_NAME = 2, 1002, 2002
CELLS = [
    PLAIN,
    *(PLAIN._replace(binding=binding) for binding in ("now", "no-plt", "ibt")),
    *(PLAIN._replace(linker=linker) for linker in ("gold", "lld", "mold")),
    PLAIN._replace(pie="nopie"),
    PLAIN._replace(compiler="clang", opt="O0"),
]


@pytest.mark.every(3)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_caller_reaches_it_and_undoing_is_byte_for_byte(cell: Cell) -> None:
    with attached.running(target(cell=cell)) as process:
        pid = process.pid
        assert ask(process) == [OWN, OWN, 0]
        before = attached.snapshot(pid)
        document = patch(pid, instead())
        assert ask(process) == [INSTEAD, INSTEAD, 0]
        assert say(process, "load") == "loaded"
        assert ask(process) == [INSTEAD, INSTEAD, INSTEAD]
        (row,) = document["replaced"]
        assert (row["symbol"], row["function"], row["slots"]) == ("patchee", "instead", 2)
        assert row["library"].endswith("/libinstead.so")
        assert say(process, "unload") == "0"
        done = undo(pid)
        assert (done["restored"], done["left"], done["left_loaded"]) == (2, 0, [])
        assert attached.differences(before, pid) == []
        assert not is_mapped(pid, "libinstead")
        assert ask(process) == [OWN, OWN, 0]
        assert attached.finish(process) == (5, "wrong 0\n", "")


def test_its_own_call_by_name_reaches_the_original() -> None:
    with attached.running(target()) as process:
        patch(process.pid, instead("instead_by_name"))
        assert ask(process) == [BY_NAME, BY_NAME, 0]


def test_the_second_takes_the_place_of_the_first_and_all_is_undone_at_once() -> None:
    with attached.running(target()) as process:
        ask(process)
        before = attached.snapshot(process.pid)
        patch(process.pid, instead())
        patch(process.pid, instead("instead_by_name"))
        assert ask(process)[0] == BY_NAME
        patch(process.pid, instead())
        assert ask(process)[0] == INSTEAD
        undo(process.pid)
        assert ask(process)[0] == OWN
        assert attached.differences(before, process.pid) == []


def test_one_of_two_is_undone() -> None:
    with attached.running(target()) as process:
        patch(process.pid, instead(), instead("instead_by_name", "patchee_inside"))
        assert ask(process)[:2] == [INSTEAD, 1002 + 2000 - 1000]
        undo(process.pid, "patchee_inside")
        assert ask(process)[:2] == [INSTEAD, INSTEAD]
        refused = soscope("patch", "-p", str(process.pid), "--undo", "patchee_inside")
        assert refused.returncode == 2
        assert "symbol 'patchee_inside' is not replaced" in refused.stderr
        assert "replaced: patchee" in refused.stderr
        assert "nothing to undo" not in soscope("patch", "-p", str(process.pid), "--undo").stdout
        assert "nothing to undo" in soscope("patch", "-p", str(process.pid), "--undo").stdout


@pytest.mark.parametrize(
    ("images", "heard"),
    [
        (["MAIN"], [INSTEAD, OWN, OWN]),
        (["libpatchee.so"], [OWN, INSTEAD, OWN]),
        (["libpatchee_*"], [OWN, OWN, INSTEAD]),
        (["MAIN", "/*/libpatchee.so"], [INSTEAD, INSTEAD, OWN]),
        (["all"], [INSTEAD, INSTEAD, INSTEAD]),
    ],
)
def test_only_calls_from_some_images(images: list[str], heard: list[int]) -> None:
    with attached.running(target()) as process:
        options = tuple(word for image in images for word in ("--from", image))
        patch(process.pid, instead(), options=options)
        assert say(process, "load") == "loaded"
        assert ask(process) == heard


def test_forked_children_have_it_and_what_they_load_too() -> None:
    with attached.running(target()) as process:
        patch(process.pid, instead())
        assert say(process, "fork") == "loaded"
        assert process.stdout is not None
        assert process.stdout.readline().split() == [str(INSTEAD)] * 3


@pytest.mark.every(2)
@pytest.mark.parametrize("verb", ["trace", "inject"])
def test_a_trace_goes_on_top_and_leaves_it_in_place(verb: str, tmp_path: Path) -> None:
    rule = ["-e", "patchee"] if verb == "trace" else ["-e", "inject=patchee:retval=77:when=1"]
    with attached.running(target()) as process:
        pid = process.pid
        ask(process)
        before = attached.snapshot(pid)
        patch(pid, instead())
        patched = attached.snapshot(pid)
        output = tmp_path / "output"
        words = [verb, "-p", str(pid), *rule, "--from", "all", "-o", str(output)]
        if verb == "inject":
            words = [verb, "-p", str(pid), *rule, "-o", str(output)]
        tracer = subprocess.Popen([sys.executable, "-m", "soscope", *words], text=True)
        try:
            attached.wait_for_hooks(tracer)
            assert ask(process)[:2] == [INSTEAD, INSTEAD if verb == "trace" else 77]
            refused = soscope("patch", "-p", str(pid), "--undo")
            assert refused.returncode == 1
            assert f"soscope {tracer.pid} traces it" in refused.stderr
            refused = soscope("patch", "-p", str(pid), "--replace", instead())
            assert f"soscope {tracer.pid} traces it" in refused.stderr
            assert say(process, "load") == "loaded"
            assert ask(process)[2] == INSTEAD
            tracer.terminate()
            assert tracer.wait(limit()) == 0
        finally:
            tracer.kill()
            tracer.wait(limit())
        assert "patchee(" in output.read_text()
        assert attached.differences(patched, pid) == []
        assert ask(process) == [INSTEAD, INSTEAD, INSTEAD]
        assert say(process, "unload") == "0"
        assert say(process, "load") == "loaded"
        assert ask(process) == [INSTEAD, INSTEAD, INSTEAD]
        undo(pid)
        assert attached.differences(before, pid) == []
        assert ask(process) == [OWN, OWN, OWN]


def test_a_killed_soscope_on_top_is_taken_out_and_it_stays(tmp_path: Path) -> None:
    with attached.running(target()) as process:
        pid = process.pid
        ask(process)
        before = attached.snapshot(pid)
        patch(pid, instead())
        tracer = attached.begin(pid, "-c", "--from", "all", "-o", str(tmp_path / "output"))
        tracer.kill()
        tracer.communicate(timeout=limit())
        assert ask(process)[:2] == [INSTEAD, INSTEAD]
        patch(pid, instead("instead_by_name"))
        assert ask(process)[:2] == [BY_NAME, BY_NAME]
        done = attached.detach(pid, "--json")
        assert done.returncode == 0, done.stderr
        assert ask(process)[:2] == [OWN, OWN]
        assert attached.differences(before, pid) == []


@pytest.mark.parametrize("cycles", sizes(2, 6))
def test_cycles_under_load(cycles: int) -> None:
    """Four threads are in the function all the time."""
    with attached.running(target(4)) as process:
        pid = process.pid
        ask(process)
        before = attached.snapshot(pid)
        for cycle in range(cycles):
            patch(pid, instead(("instead", "instead_by_name")[cycle % 2]))
            assert ask(process)[0] == (INSTEAD, BY_NAME)[cycle % 2]
            done = undo(pid)
            assert done["left"] == 0
            assert ask(process)[0] == OWN
        assert attached.differences(before, pid) == []
        assert attached.finish(process) == (5, "wrong 0\n", "")


# ---- what cannot be ----


def refused(pid: int, text: str, *options: str) -> str:
    done = soscope("patch", "-p", str(pid), "--replace", text, *options)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "this is a bug" not in done.stderr
    return done.stderr


def test_wrong_words_are_said_before_anything_happens(tmp_path: Path) -> None:
    library = build.library("instead")
    text = tmp_path / "text"
    text.write_text("no library" * 100)
    for words, said in (
        ("patchee", "not of the form SYMBOL=LIB.so:FUNCTION"),
        (f"patchee={library}", "not of the form"),
        (f"p*={library}:instead", "a pattern cannot be replaced"),
        (f"patchee={tmp_path}/none.so:instead", "cannot open"),
        (f"patchee={text}:instead", "not an ELF file"),
        (f"patchee={library}:nope", "defines no function 'nope'"),
        (f"patchee={library}:patchee_original", "defines no function 'patchee_original'"),
    ):
        assert said in refused(1, words)
    assert "nothing to do" in soscope("patch", "-p", "1").stderr
    assert "SYMBOL is for --undo" in soscope("patch", "-p", "1", "x", "--replace", instead()).stderr
    assert soscope("patch", "-p", "4194305", "--undo").returncode == 4


def test_what_cannot_be_put_in_place_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text("int nowhere(void); int bad(int x) { return x + nowhere(); }\n")
    bad = tmp_path / "libbad.so"
    made_in(tmp_path, "gcc", "-shared", "-fPIC", "-o", bad, source)
    with attached.running(target()) as process:
        pid = process.pid
        ask(process)
        before = attached.snapshot(pid)
        said = refused(pid, f"patchee={bad}:bad")
        assert f"cannot load {bad}" in said
        assert "undefined symbol: nowhere" in said
        assert "symbol 'nobody_has_it' not found in any image" in refused(
            pid, instead(symbol="nobody_has_it")
        )
        assert attached.differences(before, pid) == []
        assert not is_mapped(pid, "libbad")
        assert not is_mapped(pid, "libinstead")
        patch(pid, instead())
        patched = attached.snapshot(pid)
        assert "cannot load" in refused(pid, f"patchee_inside={bad}:bad", "--replace", instead())
        assert ask(process)[:2] == [INSTEAD, INSTEAD]
        assert attached.differences(patched, pid) == []
        undo(pid)
        assert attached.differences(before, pid) == []


def test_slots_whose_address_is_taken_stay_and_are_counted() -> None:
    with attached.running([build.program("patched"), "0"]) as process:
        row = patch(process.pid, instead())["replaced"][0]
        assert row["address_taken"] == 0


def test_nobody_waits_for_what_is_patched_to_live_on() -> None:
    """The command returns, and the process goes on with what it was given."""
    with attached.running(target(2)) as process:
        patch(process.pid, instead())
        assert attached.tracer_of(process.pid) == 0
        until(has_run(process.pid), "the program goes on", running=process)
        assert ask(process)[0] == INSTEAD
        assert attached.finish(process) == (5, "wrong 0\n", "")


def test_the_document_is_as_documented() -> None:
    with attached.running(target()) as process:
        document = patch(process.pid, instead())
        assert document["schema"] == "soscope/patch/1"
        assert document["pid"] == process.pid
        assert json.loads(json.dumps(document)) == document
        assert set(document) >= {"replaced", "restored", "left", "left_loaded"}

# SPDX-License-Identifier: Apache-2.0
"""What people read of a profile: columns, sums, and what is said below them."""

from __future__ import annotations

import pytest

from soscope.control.outcome import Price
from soscope.instruments.prof.model import CUT, MODE_QUIET
from soscope.instruments.prof.views import BY_IMAGE, BY_THREAD
from soscope.report.prof import text
from tests.support.files.profshapes import Shape


def test_functions_with_times_and_what_those_have_cost() -> None:
    shape = Shape()
    shape.sums("work", 4, 3_000_000, 2_000_000, 100_000)
    shape.sums("libz.so.1!inflate", 1_000, 1_000_000, 1_000_000, 300_000)
    shape.sums("never", 0, 0, 0)
    assert text(shape.profile) == (
        "% time     seconds       total     calls   ns/call image     function\n"
        "------ ----------- ----------- --------- --------- --------- --------------------\n"
        " 66.67 0.002000000 0.003000000         4  500000.0 lib.so    work\n"
        " 33.33 0.001000000 0.001000000      1000    1000.0 libz.so.1 inflate\n"
        "  0.00 0.000000000 0.000000000         0         - lib.so    never\n"
        "------ ----------- ----------- --------- --------- --------- --------------------\n"
        "100.00 0.003000000           -      1004    2988.0           total\n"
        "the hooks cost about 398 ns a call, 400.000 µs of the 3.400 ms that were measured; "
        "the times are without it\n"
    )


def test_a_time_that_may_be_as_wrong_as_it_is_long_is_marked_and_comes_last() -> None:
    shape = Shape()
    shape.sums("quick", 1000, 6000, 6000)
    shape.sums("slow", 10, 4000, 4000)
    for sums, doubt in zip(shape.profile.sums, (7000, 70), strict=True):
        sums.doubt_ns = doubt
    lines = text(shape.profile).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["40.00", "60.00?"]
    assert lines[6].startswith("? marks times that are no larger than their error")


def test_the_rest_is_one_row_and_all_adds_up() -> None:
    shape = Shape()
    for number in range(30):
        shape.sums(f"f{number}", 1, 100 - number, 100 - number)
    lines = text(shape.profile).splitlines()
    assert len(lines) == 2 + 20 + 1 + 2
    assert lines[-3].split()[-2:] == ["(10", "more)"]
    shares = [float(line.split()[0]) for line in lines[2:-2]]
    assert abs(sum(shares) - 100) < 0.2
    assert text(shape.profile, 0).splitlines()[2].endswith("(30 more)")


def test_counts_alone_have_no_column_of_times() -> None:
    shape = Shape()
    shape.sums("a", 3)
    shape.sums("b", 1)
    assert text(shape.profile) == (
        "% calls     calls image  function\n"
        "------- --------- ------ --------------------\n"
        "  75.00         3 lib.so a\n"
        "  25.00         1 lib.so b\n"
        "------- --------- ------ --------------------\n"
        " 100.00         4        total\n"
    )


def test_samples_have_a_table_of_their_own() -> None:
    shape = Shape()
    shape.sums("a", 3, 50, 50)
    shape.sample("main", "/srv/app.py:3:run", "a", weight=3)
    shape.sample("main", weight=1)
    calls, samples = text(shape.profile).split("\n\n")
    assert calls.splitlines()[2].split() == "100.00 0.000000050 0.000000050 3 16.7 lib.so a".split()
    assert [line.split() for line in samples.splitlines()] == [
        "% time seconds total samples image function".split(),
        ["------", "-----------", "-----------", "---------", "------", "-" * 20],
        "75.00 0.003000000 0.003000000 3 lib.so a".split(),
        "25.00 0.001000000 0.004000000 1 lib.so main".split(),
        "0.00 0.000000000 0.003000000 0 app.py run".split(),
        ["------", "-----------", "-----------", "---------", "------", "-" * 20],
        "100.00 0.004000000 - 4 total".split(),
    ]


def test_samples_and_calls_share_a_table_where_nobody_said_how_to_profile() -> None:
    shape = Shape()
    shape.sums("a", 3, 50, 50)
    shape.sums("wait", 1, 9_000_000, 9_000_000)
    shape.sums("quick", 2, 20, 20)
    shape.profile.sums[2].doubt_ns = 30
    shape.sample("main", "a", weight=3)
    shape.sample("main", weight=1)
    shape.profile.is_chosen, shape.profile.processor_ns = True, 5_000_000
    shape.profile.hooks_ns = 500_000
    lines = text(shape.profile).splitlines()
    assert lines[0] == "0.004000 of 0.004500 s of processor time are in the table (88.9 %)"
    assert (
        lines[1]
        == "% time, seconds and total are by 4 samples; calls and ns/call, with waits, are by hooks"
    )
    rule = "------ ----------- ----------- --------- --------- ------ --------------------".split()
    assert [line.split() for line in lines[2:-1]] == [
        "% time seconds total calls ns/call image function".split(),
        rule,
        "75.00 0.003000000 0.003000000 3 16.7 lib.so a".split(),
        "25.00 0.001000000 0.004000000 - - lib.so main".split(),
        "- - - 1 9000000.0 lib.so wait".split(),
        "- - - 2 10.0? lib.so quick".split(),
        rule,
        "100.00 0.004000000 - 6 1500011.7 total".split(),
    ]
    assert lines[-1].startswith("? marks times")
    images = text(shape.profile, by=BY_IMAGE).splitlines()
    assert images[4].split() == "100.00 0.004000000 6 1500011.7 lib.so".split()
    assert text(shape.profile, 1).splitlines()[5].split() == (
        "25.00 0.001000000 - 3 3000006.7 (3 more)".split()
    )


def test_threads_that_did_not_run_have_no_samples() -> None:
    shape = Shape()
    shape.profile.mode, shape.profile.processor_ns = None, 40_000
    assert text(shape.profile) == "no samples were taken: its threads ran 40.000 µs in all\n"


def test_a_table_of_calls_alone_says_so_where_nobody_said_how_to_profile() -> None:
    shape = Shape()
    shape.sums("wait", 1, 9_000_000, 9_000_000)
    profile = shape.profile
    profile.is_chosen, profile.processor_ns, profile.cost = True, 900_000, Price(10_000_000)
    assert text(profile).splitlines()[:2] == [
        "0.009000 of 0.010000 s that it ran are in the table (90 %): only calls, with their waits",
        "900.000 µs of processor time were too little for samples",
    ]
    profile.missed_ns = {"nobody may": 800_000}
    assert text(profile).splitlines()[1] == "samples of its own code are missing: nobody may"
    profile.cost = Price(5_000_000)
    assert text(profile).splitlines()[0] == (
        "calls of several threads took 9.000 ms, with their waits"
    )


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (4_000_000, "4.000 ms of processor time were too little for samples"),
        (0, "its threads ran too little for samples"),
    ],
)
def test_no_share_is_told_of_a_table_that_has_nothing(ran: int, why: str) -> None:
    """As of a static program that ends at once: nobody knows how long it ran."""
    profile = Shape().profile
    profile.is_chosen, profile.processor_ns = True, ran
    lines = text(profile).splitlines()
    assert lines[0] == why
    assert "in the table" not in text(profile)


def test_rows_of_images_and_of_threads() -> None:
    shape = Shape()
    shape.sums("a", 3, 50, 30)
    shape.sums("libz.so!b", 1, 10, 10)
    rows = [line.split() for line in text(shape.profile, by=BY_IMAGE).splitlines()]
    assert rows[0] == "% time seconds calls ns/call image".split()
    assert rows[2:4] == [
        "75.00 0.000000030 3 10.0 lib.so".split(),
        "25.00 0.000000010 1 10.0 libz.so".split(),
    ]
    assert text(shape.profile, by=BY_THREAD) == "the threads were not told apart\n"
    shape.ways([(("a",), 1, 10)], thread=shape.thread(11, "worker"))
    row = text(shape.profile, by=BY_THREAD).splitlines()[2]
    assert row.endswith("thread 11 of process 10 (worker)")


def test_what_is_missing_is_said() -> None:
    shape = Shape()
    shape.profile.state = CUT
    shape.profile.dropped = 2
    shape.profile.notes = ["a\x07note"]
    assert text(shape.profile) == (
        "no calls were recorded\nthe recording is not complete (cut)\n2 calls dropped\na\\x07note\n"
    )
    shape.sums("strange\nname", 1)
    assert "strange\\x0aname" in text(shape.profile)


def test_quiet_hooks_are_no_program_without_calls() -> None:
    shape = Shape()
    shape.profile.mode = MODE_QUIET
    assert text(shape.profile) == "no calls were recorded: --mode quiet has hooks do nothing\n"

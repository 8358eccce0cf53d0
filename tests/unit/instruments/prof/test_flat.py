# SPDX-License-Identifier: Apache-2.0
"""Rows of functions, images and threads."""

from __future__ import annotations

from soscope.instruments.prof.views import (
    CALLS,
    SAMPLES,
    FlatRow,
    by_image,
    by_thread,
    function_rows,
    image_name,
    sample_rows,
)
from soscope.model.call import StackFrame
from tests.support.files.profshapes import Shape

MS = 1_000_000


def named(rows: list[FlatRow]) -> list[tuple[object, ...]]:
    return [
        (image_name(row.frame), row.frame.symbol, row.count, row.total_ns, row.self_ns)
        for row in rows
    ]


def test_functions_stand_by_their_own_time() -> None:
    shape = Shape()
    shape.sums("a", 3, 100, 10)
    shape.sums("b", 5, 90, 90)
    shape.sums("libz.so!c", 7)
    shape.function("outside")
    rows = function_rows(shape.profile)
    assert named(rows) == [
        ("lib.so", "b", 5, 90, 90),
        ("lib.so", "a", 3, 100, 10),
        ("libz.so", "c", 7, None, None),
    ]
    assert named(by_image(rows)) == [
        ("lib.so", None, 8, None, 100),
        ("libz.so", None, 7, None, None),
    ]


def test_a_recursive_function_is_in_a_sample_once() -> None:
    shape = Shape()
    shape.sample("main", "a", "b", "a", weight=2)
    shape.sample("main", "a", "b")
    rows = sample_rows(shape.profile)
    assert named(rows) == [
        ("lib.so", "a", 2, 3 * MS, 2 * MS),
        ("lib.so", "b", 1, 3 * MS, MS),
        ("lib.so", "main", 0, 3 * MS, 0),
    ]
    assert sum(row.self_ns or 0 for row in rows) == 3 * MS


def test_an_interpreters_functions_stand_by_their_files() -> None:
    shape = Shape()
    shape.sample("/srv/app.py:3:run", "python3!eval")
    rows = sample_rows(shape.profile)
    assert named(by_image(rows)) == [("python3", None, 1, None, MS), ("app.py", None, 0, None, 0)]


def test_rubys_internal_files_keep_their_brackets() -> None:
    files = ["<internal:/usr/lib/rubygems/kernel_require.rb>", "<internal:gem_prelude>", "/a/b.rb"]
    frames = [StackFrame(None, "require", None, file, 3) for file in files]
    assert [image_name(frame) for frame in frames] == [
        "<internal:kernel_require.rb>",
        "<internal:gem_prelude>",
        "b.rb",
    ]


def test_threads_are_those_of_trees_and_samples() -> None:
    shape = Shape()
    shape.ways([(("a",), 1, 10), (("a", "b"), 2, 5)])
    worker = shape.thread(11, "worker")
    shape.ways([(("a",), 3, 20)], thread=worker)
    shape.sample("a", thread=worker, weight=4)
    assert named(by_thread(shape.profile, CALLS)) == [
        ("", "thread 11 of process 10 (worker)", 3, None, 20),
        ("", "thread 10 of process 10 (main)", 3, None, 15),
    ]
    assert named(by_thread(shape.profile, SAMPLES)) == [
        ("", "thread 11 of process 10 (worker)", 4, None, 4 * MS)
    ]

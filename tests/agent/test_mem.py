# SPDX-License-Identifier: Apache-2.0
"""Files of mem/ that keep books: each beside a model that is a plain array."""

from __future__ import annotations

import pytest

from tests.agent import hosted


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_blocks_are_counted_by_function_and_size(compiler: str) -> None:
    hosted.check("sizes", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_objects_that_are_chosen_have_marks(compiler: str) -> None:
    hosted.check("picks", compiler=compiler)


def test_stacks_of_threads_begin_and_end_once() -> None:
    hosted.check("threads")


def test_calls_that_a_program_counts_itself() -> None:
    hosted.check("tally")


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_stacks_are_those_that_the_c_library_finds(compiler: str) -> None:
    hosted.check("walk", compiler=compiler)


def test_each_process_has_a_place_of_its_own_for_its_objects() -> None:
    hosted.check("objects")

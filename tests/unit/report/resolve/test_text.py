# SPDX-License-Identifier: Apache-2.0
"""What `soscope resolve` says of a query that many things answer."""

from __future__ import annotations

from soscope.live.lookup.answer import AMBIGUOUS, Answer, Candidate
from soscope.report.resolve import complaint


def test_a_hundred_candidates_are_named_and_the_others_counted() -> None:
    """A compiler in the process may have made a hundred thousand functions of one name."""
    answer = Answer("f", AMBIGUOUS)
    for count, lines in ((2, 3), (100, 101), (2100, 102)):
        answer.candidates = [Candidate(at, "f", None, None, "jit") for at in range(count)]
        said = complaint(answer)
        assert len(said) == lines
        assert said[-1] == ("    and 2,000 more: --all prints them" if count > 100 else said[-1])
        assert said[1].startswith("    0x0  f  -  jit")

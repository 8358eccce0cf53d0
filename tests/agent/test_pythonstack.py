# SPDX-License-Identifier: Apache-2.0
"""Numbers of code objects in stacks: true until their own one ends."""

from __future__ import annotations

from tests.agent import hosted


def test_a_code_object_that_ends_takes_its_own_number_along() -> None:
    hosted.check("pythonstack")

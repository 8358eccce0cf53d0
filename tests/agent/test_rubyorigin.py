# SPDX-License-Identifier: Apache-2.0
"""Lines of Ruby that make objects: told by the names of their files, as far as those go."""

from __future__ import annotations

from tests.agent import hosted


def test_a_file_of_ruby_is_known_by_its_name() -> None:
    hosted.check("rubyorigin")

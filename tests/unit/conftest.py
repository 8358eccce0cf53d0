# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests of single parts."""

from __future__ import annotations

from hypothesis import settings

# Its own limit of 200 ms for an example is one of wall time: it ends tests on a busy machine.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

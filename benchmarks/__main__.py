# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks` is `python benchmarks/run.py`."""

from __future__ import annotations

import sys

from benchmarks.run import main

sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""`python -m soscope` is `soscope`."""

from __future__ import annotations

import sys

from soscope.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

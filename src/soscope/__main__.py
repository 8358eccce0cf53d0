# SPDX-License-Identifier: Apache-2.0
"""Let `python -m soscope` run the command `soscope`."""

from __future__ import annotations

from soscope.verbs.main import start

if __name__ == "__main__":
    start()

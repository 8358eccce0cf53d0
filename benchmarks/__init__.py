# SPDX-License-Identifier: Apache-2.0
"""What soscope costs, beside its peers: `python3 benchmarks/run.py`."""

# SPDX-License-Identifier: Apache-2.0
"""Statistical samples of all threads of a process, taken from outside.

    accounts of threads ─► who has run ─► stopped for a moment ─► registers, stack, own frames
    unwind tables ─► addresses ─► counts by thread and stack ─► a recording

soscope adds no thread and no timer to the process. A separate process of soscope's takes the
samples (`sampler.py`), so that neither the session nor the reader of its output keeps a thread
waiting.
"""

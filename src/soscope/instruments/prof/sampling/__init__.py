# SPDX-License-Identifier: Apache-2.0
"""Statistical samples of all threads of a process, taken from outside.

    accounts of threads ─► who has run ─► stopped for a moment ─► registers, stack, own frames
    unwind tables ─► addresses ─► counts by thread and stack ─► a recording

No thread and no timer of ours is in the process. A process of soscope's own does it
(`sampler.py`), so that neither the session nor whoever reads its output keeps a thread waiting.
"""

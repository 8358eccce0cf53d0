# SPDX-License-Identifier: Apache-2.0
"""Lead calls of a C function to the user's own, inside the process that imports soscope.

No agent and no ptrace: the process rewrites its own slots. `hook.py` is the face of it.
"""

# SPDX-License-Identifier: Apache-2.0
"""Redirect calls of a C function to the user's own, in the process that uses soscope.

It needs no agent and no ptrace, because the process rewrites its own slots. `hook.py` has the
public interface.
"""

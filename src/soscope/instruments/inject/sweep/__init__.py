# SPDX-License-Identifier: Apache-2.0
"""Sweeps: each call site of a run fails once, in a run of its own.

Two runs without injection give the sites (`observed`, `site`). A run (`runs`) is a process;
`inside` is what it does, `crash` and `stack` say where it died. `result` makes kinds of ends, and
`sweep` does all of it.
"""

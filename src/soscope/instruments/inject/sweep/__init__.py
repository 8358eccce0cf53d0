# SPDX-License-Identifier: Apache-2.0
"""Sweeps: each call site of a run fails once, in a run of its own.

Two runs without injection find the sites (`observed`, `site`). Each run (`runs`) has a process of
its own. `inside` is the work of that process, and `crash` and `stack` tell where the command
died. `result` sorts the ends of runs into kinds, and `sweep` drives all of it.
"""

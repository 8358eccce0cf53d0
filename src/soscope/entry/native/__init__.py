# SPDX-License-Identifier: Apache-2.0
"""Breakpoints in native processes without an agent: ptrace(2), and memory in /proc."""

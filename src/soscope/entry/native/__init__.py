# SPDX-License-Identifier: Apache-2.0
"""Breakpoints in native processes that take no agent: our own ptrace(2), and memory in /proc."""

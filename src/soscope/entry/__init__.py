# SPDX-License-Identifier: Apache-2.0
"""Access to a process: ptrace, stopped threads, breakpoints, and the agent."""

# SPDX-License-Identifier: Apache-2.0
"""The ways into a process: ptrace, stopped threads, the agent."""

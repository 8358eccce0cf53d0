# SPDX-License-Identifier: Apache-2.0
"""Live processes: what /proc says of them, their memory, ptrace, the agent's way in."""

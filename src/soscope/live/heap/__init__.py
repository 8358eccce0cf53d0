# SPDX-License-Identifier: Apache-2.0
"""The allocators of a process that runs: read, never stopped."""

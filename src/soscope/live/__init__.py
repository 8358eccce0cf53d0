# SPDX-License-Identifier: Apache-2.0
"""Read-only access to a process: this code never stops it, and runs no code in it."""

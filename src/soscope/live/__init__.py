# SPDX-License-Identifier: Apache-2.0
"""Read-only access to a process: no code here stops it, or runs code in it."""

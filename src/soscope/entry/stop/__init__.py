# SPDX-License-Identifier: Apache-2.0
"""Threads of a process that stand still: stopping them, calls made in their place."""

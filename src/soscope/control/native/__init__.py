# SPDX-License-Identifier: Apache-2.0
"""Trace processes of this machine without an agent: breakpoints see their calls."""

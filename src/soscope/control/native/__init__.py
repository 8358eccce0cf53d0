# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine that take no agent: their calls are seen by breakpoints."""

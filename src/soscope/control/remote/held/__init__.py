# SPDX-License-Identifier: Apache-2.0
"""Trace programs that a GDB stub holds, from the point where they wait, and release them."""

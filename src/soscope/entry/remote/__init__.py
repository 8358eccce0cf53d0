# SPDX-License-Identifier: Apache-2.0
"""The GDB remote protocol: a program that somebody else runs, seen through a stub."""

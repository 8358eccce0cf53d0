# SPDX-License-Identifier: Apache-2.0
"""The GDB remote protocol: trace a program that a GDB stub runs."""

# SPDX-License-Identifier: Apache-2.0
"""Trace programs of other architectures, which an emulator runs, by the emulator's GDB stub."""

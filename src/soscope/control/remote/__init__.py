# SPDX-License-Identifier: Apache-2.0
"""Programs of other architectures: run by an emulator, seen from outside through its stub."""

# SPDX-License-Identifier: Apache-2.0
"""Programs of other architectures under qemu's emulator, controlled by its GDB stub."""

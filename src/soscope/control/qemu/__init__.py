# SPDX-License-Identifier: Apache-2.0
"""Programs of other architectures under qemu's emulator, whose stub is ours to talk to."""

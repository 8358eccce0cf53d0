# SPDX-License-Identifier: Apache-2.0
"""The linker's stubs in ELF files.

A stub is told from other code by what it leads through: only a slot that a relocation fills
makes it one. Each instruction set has a decoder in `soscope.binfmt.isa`; the finder calls them.
"""

# SPDX-License-Identifier: Apache-2.0
"""The linker's stubs in ELF files.

Code counts as a stub only if it jumps through a slot that a relocation fills. Each instruction
set has a decoder in `soscope.binfmt.isa`, which the finder calls.
"""

# SPDX-License-Identifier: Apache-2.0
"""What linkers put in stubs as text: one short decoder for each architecture.

No disassembler: a row for each instruction, by its bytes. Beside its text a decoder keeps what
the instruction leaves in registers and on the stack, so that whoever follows the code knows what
a resolver is given.
"""

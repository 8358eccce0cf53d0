# SPDX-License-Identifier: Apache-2.0
"""The code of linkers' stubs as text: one short decoder for each architecture.

These are not disassemblers: they have one row for each instruction, by its bytes. Beside the
text, a decoder tracks the values that instructions leave in registers and on the stack. So a
caller that follows the code gets the argument of a resolver.
"""

# SPDX-License-Identifier: Apache-2.0
"""The one ELF reader of the Python side: program headers and PT_DYNAMIC, over any source.

It never looks at section headers: a stripped file may not have any, and in memory there are
none. Start at `soscope.binfmt.elf.image.ElfImage`.
"""

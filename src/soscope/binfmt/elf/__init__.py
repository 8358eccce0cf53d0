# SPDX-License-Identifier: Apache-2.0
"""The one ELF reader of the Python side: program headers and PT_DYNAMIC, over any source.

Start at `soscope.binfmt.elf.image.ElfImage`. It never looks at section headers: a stripped file
may not have any, and in memory there are none. `soscope.binfmt.elf.sections` reads them for the
names that only they lead to.
"""

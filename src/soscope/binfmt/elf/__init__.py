# SPDX-License-Identifier: Apache-2.0
"""The ELF reader of the Python side: program headers and PT_DYNAMIC of any source.

Start at `soscope.binfmt.elf.image.ElfImage`. It never reads section headers, because a stripped
file may have none and an image in memory has none. `soscope.binfmt.elf.sections` reads them for
names that only section headers lead to.
"""

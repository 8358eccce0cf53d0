# SPDX-License-Identifier: Apache-2.0
"""The Mach-O reader: thin and fat files, with all three generations of loader data.

`fat.slices` finds the images of a file. `filemap.MachoMap` (or `filemap.read_map`) reads what one
of them says about its linking. The layouts are from Apple's <mach-o/loader.h>, <mach-o/fat.h>,
<mach-o/nlist.h>, <mach-o/reloc.h> and <mach-o/fixup-chains.h>.
"""

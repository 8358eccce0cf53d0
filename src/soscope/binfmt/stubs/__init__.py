# SPDX-License-Identifier: Apache-2.0
"""The linker's stubs in ELF files, one decoder per architecture.

A stub is told from other code by what it leads through: only a slot that a relocation fills
makes it one. A decoder is a module with

- `PLACES`: how the names of the sections begin that hold nothing but stubs; empty where the
  linker puts them among the functions;
- `find(code, table)`: the stubs in a stretch of code, pure bytes in, `Found` out.

`soscope.binfmt.stubs.finder` calls them.
"""

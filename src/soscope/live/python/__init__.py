# SPDX-License-Identifier: Apache-2.0
"""CPython's objects in another process, read from its memory.

`interpreter` finds out which CPython runs in a process, `offsets` has the layouts of its structs.
`objects` reads types and sizes of many objects at once, `lines` the line of an instruction. No
code runs in the process, and nothing in it is changed.
"""

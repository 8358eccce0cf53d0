# SPDX-License-Identifier: Apache-2.0
"""CPython's objects in another process, by reading its memory alone.

`interpreter` says which CPython runs in a process, `offsets` where its structs keep what;
`objects` tells types and sizes of many objects at once, `lines` the line of an instruction.
Nothing runs in the process, and nothing of it is changed.
"""

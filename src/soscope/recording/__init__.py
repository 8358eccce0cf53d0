# SPDX-License-Identifier: Apache-2.0
"""Recordings: from the ring in shared memory to a file, and from either to calls.

`drain` empties the ring into sinks; a sink is the file `writer`, the `stream` decoder that
makes calls of it at once, or both. `reader` opens a file, `columns` reduces it with numpy.
"""

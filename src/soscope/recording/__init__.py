# SPDX-License-Identifier: Apache-2.0
"""Recordings: from the ring in shared memory to a file, and from either to calls.

`drain` moves data from the ring to sinks. A sink is the file `writer`, the `stream` decoder that
makes calls from the data at once, or both. `reader` opens a file, and `columns` reduces it with
numpy.
"""

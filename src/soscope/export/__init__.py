# SPDX-License-Identifier: Apache-2.0
"""The calls of a recording in the formats of other programs: one file for each format.

Each has `export(replay, write, options)`: it writes bytes, and returns notes for people.
"""

# SPDX-License-Identifier: Apache-2.0
"""Recordings in the formats of other programs: one file for each format.

Formats for calls have `export(replay, write, settings)`, formats for profiles have
`export_profile(profile, write, settings)`. These functions write bytes, and return notes for the
user.
"""

# SPDX-License-Identifier: Apache-2.0
"""Recordings in the formats of other programs: one file for each format.

Those of calls have `export(replay, write, settings)`, those of profiles
`export_profile(profile, write, settings)`: it writes bytes, and returns notes for people.
"""

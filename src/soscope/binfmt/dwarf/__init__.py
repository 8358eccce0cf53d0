# SPDX-License-Identifier: Apache-2.0
"""DWARF: entries, lines, names and types; what pyelftools reads is in files of its own."""

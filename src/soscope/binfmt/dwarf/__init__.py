# SPDX-License-Identifier: Apache-2.0
"""DWARF: entries, lines, names and types."""

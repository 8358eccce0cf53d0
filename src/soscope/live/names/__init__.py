# SPDX-License-Identifier: Apache-2.0
"""The names that one image has: its symbol tables, debugging data, generated code."""

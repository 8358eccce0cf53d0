# SPDX-License-Identifier: Apache-2.0
"""The names in one image: its symbol tables, debugging data, generated code."""

# SPDX-License-Identifier: Apache-2.0
"""Audit what a dynamic linker's lazy resolver does to the registers of a call."""

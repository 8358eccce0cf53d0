# SPDX-License-Identifier: Apache-2.0
"""What a dynamic linker's lazy resolver does to the registers of the interrupted call."""

# SPDX-License-Identifier: Apache-2.0
"""Format results for people and for programs: one file for each form."""

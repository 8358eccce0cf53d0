# SPDX-License-Identifier: Apache-2.0
"""The work of the commands that only inspect; nothing is printed here."""

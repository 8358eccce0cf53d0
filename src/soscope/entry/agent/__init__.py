# SPDX-License-Identifier: Apache-2.0
"""The agent in a process: inserting it, finding it, taking it out."""

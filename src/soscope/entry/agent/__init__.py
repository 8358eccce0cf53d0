# SPDX-License-Identifier: Apache-2.0
"""The agent in a process: insert it, find it, take it out."""

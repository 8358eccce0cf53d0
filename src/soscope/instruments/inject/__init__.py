# SPDX-License-Identifier: Apache-2.0
"""Fault injection: the rules, their tables for the agent, and counts of the failed calls."""

# SPDX-License-Identifier: Apache-2.0
"""Calls that fail on demand: rules, what the agent makes of them, and how often it did."""

# SPDX-License-Identifier: Apache-2.0
"""Run programs under observation: launch them, insert the agent, follow children.

It also reports how the programs end.
"""

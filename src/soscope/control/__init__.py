# SPDX-License-Identifier: Apache-2.0
"""Run programs under observation: launch, put the agent in, follow, pass on how they ended."""

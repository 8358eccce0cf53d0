# SPDX-License-Identifier: Apache-2.0
"""The Python side of agent/include/soscope/wire.h: what agent and soscope exchange."""

# SPDX-License-Identifier: Apache-2.0
"""The data that the agent and soscope exchange: the Python side of soscope/wire.h."""

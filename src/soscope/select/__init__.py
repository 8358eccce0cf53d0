# SPDX-License-Identifier: Apache-2.0
"""Select calls: compile the language of -e, --from and --to into rules for the agent."""

# SPDX-License-Identifier: Apache-2.0
"""Selects calls: compiles the language of -e, --from and --to into rules that the agent runs."""

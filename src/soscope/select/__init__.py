# SPDX-License-Identifier: Apache-2.0
"""Which calls: the language of -e, --from and --to, compiled into what the agent runs."""

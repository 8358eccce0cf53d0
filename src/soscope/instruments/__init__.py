# SPDX-License-Identifier: Apache-2.0
"""The instruments: each one chooses what it observes and adds up what it has seen.

Nothing here prints.
"""

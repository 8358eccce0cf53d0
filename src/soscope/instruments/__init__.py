# SPDX-License-Identifier: Apache-2.0
"""The instruments: each one chooses what it observes, and computes its results.

Nothing here prints.
"""

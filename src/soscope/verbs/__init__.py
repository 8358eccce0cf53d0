# SPDX-License-Identifier: Apache-2.0
"""The verbs: a file for each, with its options, its help and the function that runs it."""

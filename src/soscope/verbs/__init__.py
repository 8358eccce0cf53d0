# SPDX-License-Identifier: Apache-2.0
"""The verbs: a file for each, with its options, its help and the function that runs it.

A verb's `run` first reads its words by the table. It imports what it needs behind that, as --help
and usage errors do not need it.
"""

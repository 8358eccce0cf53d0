# SPDX-License-Identifier: Apache-2.0
"""The verbs: a file each, with its options, its help and what it runs."""

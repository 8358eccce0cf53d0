# SPDX-License-Identifier: Apache-2.0
"""The options that verbs share: how they are spelled, and what they become."""

# SPDX-License-Identifier: Apache-2.0
"""The options of the verbs: their spelling, and the settings that they become."""

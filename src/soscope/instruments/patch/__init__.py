# SPDX-License-Identifier: Apache-2.0
"""Patches: functions of the user's own in place of the functions of a library."""

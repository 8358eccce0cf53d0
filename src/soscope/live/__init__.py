# SPDX-License-Identifier: Apache-2.0
"""A process that is only looked at: nothing here stops it, or runs code in it."""

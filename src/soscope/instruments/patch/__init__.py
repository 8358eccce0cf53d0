# SPDX-License-Identifier: Apache-2.0
"""Functions of one's own in the place of a library's."""

# SPDX-License-Identifier: Apache-2.0
"""The trace instrument: calls between images, printed one by one or counted."""

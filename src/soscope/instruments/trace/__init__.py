# SPDX-License-Identifier: Apache-2.0
"""The trace instrument: calls between images, as they happen or counted."""

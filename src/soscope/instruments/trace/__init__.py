# SPDX-License-Identifier: Apache-2.0
"""The trace instrument: calls across the boundary, as they happen or counted."""

# SPDX-License-Identifier: Apache-2.0
"""Programs that somebody else's stub holds: traced from where they wait, and let go of."""

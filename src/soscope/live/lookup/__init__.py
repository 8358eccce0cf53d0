# SPDX-License-Identifier: Apache-2.0
"""Names to addresses and back, by the loader's own rules."""

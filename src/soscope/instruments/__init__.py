# SPDX-License-Identifier: Apache-2.0
"""The instruments: each selects what it wants to see and reduces what it saw. No printing."""

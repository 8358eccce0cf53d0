# SPDX-License-Identifier: Apache-2.0
"""Read what /proc tells about processes: their status, mappings, memory and rights."""

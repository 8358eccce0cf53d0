# SPDX-License-Identifier: Apache-2.0
"""What /proc says of processes: their status, mappings, memory and rights."""

# SPDX-License-Identifier: Apache-2.0
"""Read /proc: the status, mappings, memory and rights of processes."""

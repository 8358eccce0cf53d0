# SPDX-License-Identifier: Apache-2.0
"""Programs under a GDB stub that soscope did not start; memory is reached by packets."""

# SPDX-License-Identifier: Apache-2.0
"""Programs that a stub of somebody else's holds, whose memory is reached by packets alone."""

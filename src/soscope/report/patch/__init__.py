# SPDX-License-Identifier: Apache-2.0
"""Reports of `soscope patch`."""

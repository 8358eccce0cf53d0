# SPDX-License-Identifier: Apache-2.0
"""The verbs of `soscope prof`, a file each."""

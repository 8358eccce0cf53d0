# SPDX-License-Identifier: Apache-2.0
"""What soscope knows of the code of 32-bit ARM, and Thumb."""

# SPDX-License-Identifier: Apache-2.0
"""What soscope knows of the code of PowerPC of 32 and of 64 bits."""

# SPDX-License-Identifier: Apache-2.0
"""What soscope knows of the code of x86-64, x32 and i386."""

# SPDX-License-Identifier: Apache-2.0
"""The code of soscope that is specific to x86-64, x32 and i386."""

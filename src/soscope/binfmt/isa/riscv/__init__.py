# SPDX-License-Identifier: Apache-2.0
"""What soscope knows of the code of RISC-V."""

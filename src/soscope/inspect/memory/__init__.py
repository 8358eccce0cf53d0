# SPDX-License-Identifier: Apache-2.0
"""Where the memory of a process is: what `soscope mem where` finds out."""

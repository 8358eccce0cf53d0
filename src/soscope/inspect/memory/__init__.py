# SPDX-License-Identifier: Apache-2.0
"""The use of a process's memory, for `soscope mem where`."""

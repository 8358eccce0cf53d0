# SPDX-License-Identifier: Apache-2.0
"""Seccomp filters of other processes: read them, and test them for soscope's system calls."""

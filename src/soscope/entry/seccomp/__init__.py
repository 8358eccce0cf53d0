# SPDX-License-Identifier: Apache-2.0
"""Seccomp filters of other processes: read, and asked what they would say to soscope's calls."""

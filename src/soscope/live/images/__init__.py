# SPDX-License-Identifier: Apache-2.0
"""The images of a process: their addresses, their files, and whether both are still valid."""

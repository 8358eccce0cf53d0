# SPDX-License-Identifier: Apache-2.0
"""The allocators of a running process, which is read but never stopped."""

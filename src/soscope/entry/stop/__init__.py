# SPDX-License-Identifier: Apache-2.0
"""Stopped threads of a process: how to stop them, and how to make calls in them."""

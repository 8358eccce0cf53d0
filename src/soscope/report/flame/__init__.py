# SPDX-License-Identifier: Apache-2.0
"""Flame graphs for all instruments: a tree of frames, its picture, and an HTML page."""

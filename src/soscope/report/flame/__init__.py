# SPDX-License-Identifier: Apache-2.0
"""Flame graphs of any instrument: a tree of frames, its picture, and a page around that."""

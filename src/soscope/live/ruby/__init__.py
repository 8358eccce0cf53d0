# SPDX-License-Identifier: Apache-2.0
"""CRuby in a process, read from its memory: which one it is, and the frames of its threads.

Nothing is called in the process, and no symbol is needed but those that extensions bind to.
"""

# SPDX-License-Identifier: Apache-2.0
"""CRuby in a process, read from its memory: its version, and the frames of its threads.

No function is called in the process, and only symbols that extensions use are needed.
"""

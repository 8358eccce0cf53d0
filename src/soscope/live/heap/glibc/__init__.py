# SPDX-License-Identifier: Apache-2.0
"""The malloc of glibc: its arenas, their chunks, and the threads' caches."""

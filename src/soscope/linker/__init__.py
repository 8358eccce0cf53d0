# SPDX-License-Identifier: Apache-2.0
"""Where a dynamic loader searches: search paths, its cache, and the providers of symbols."""

# SPDX-License-Identifier: Apache-2.0
"""The dynamic loader's search: search paths, its cache, and the providers of symbols."""

# SPDX-License-Identifier: Apache-2.0
"""Where a dynamic loader looks: search paths, its cache, who provides what."""

# SPDX-License-Identifier: Apache-2.0
"""The part that all breakpoint engines share: images, watches, values and layouts."""

# SPDX-License-Identifier: Apache-2.0
"""What all engines share that see calls by breakpoints: images, watches, values, layouts."""

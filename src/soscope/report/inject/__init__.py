# SPDX-License-Identifier: Apache-2.0
"""What a sweep of `soscope inject` has found, for people and for programs."""

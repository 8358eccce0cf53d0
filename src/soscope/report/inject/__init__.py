# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep of `soscope inject`, for people and for programs."""

# SPDX-License-Identifier: Apache-2.0
"""`soscope prof`: how often library functions are called, and how long calls take."""

# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check`: how a file can be profiled, by what it says itself."""

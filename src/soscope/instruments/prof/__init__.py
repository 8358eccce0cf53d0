# SPDX-License-Identifier: Apache-2.0
"""`soscope prof`: how often functions of shared libraries are called, and how long they take."""

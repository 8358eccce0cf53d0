# SPDX-License-Identifier: Apache-2.0
"""`soscope prof`: profiles of shared libraries, by calls and by samples."""

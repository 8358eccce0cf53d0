# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check`: how a file can be profiled, as far as the file itself tells."""

# SPDX-License-Identifier: Apache-2.0
"""`soscope mem`: which objects and blocks of memory are alive, and where they were made."""

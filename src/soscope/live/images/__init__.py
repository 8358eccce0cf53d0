# SPDX-License-Identifier: Apache-2.0
"""The images of a process: where each lies, the file behind it, whether that still holds."""

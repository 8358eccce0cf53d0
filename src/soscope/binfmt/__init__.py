# SPDX-License-Identifier: Apache-2.0
"""Binary formats: bytes in, model data out. Knows neither processes nor the file system's tree."""

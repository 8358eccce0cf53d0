# SPDX-License-Identifier: Apache-2.0
"""Binary formats: decode bytes to model data without access to processes or other files."""

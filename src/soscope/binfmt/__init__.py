# SPDX-License-Identifier: Apache-2.0
"""Binary formats: bytes in, model data out; no access to processes or to other files."""

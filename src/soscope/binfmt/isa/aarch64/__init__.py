# SPDX-License-Identifier: Apache-2.0
"""The code of soscope that is specific to aarch64."""

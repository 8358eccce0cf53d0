# SPDX-License-Identifier: Apache-2.0
"""What every engine of breakpoints needs, whoever sets them: points, and the frames of calls."""

# SPDX-License-Identifier: Apache-2.0
"""What every breakpoint engine needs: breakpoints, and the frames of open calls."""

# SPDX-License-Identifier: Apache-2.0
"""Names for the frames in stacks of a recording: native code, Python and Ruby."""

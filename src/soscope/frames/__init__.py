# SPDX-License-Identifier: Apache-2.0
"""What the stacks of a recording are called: frames of native code, of Python and of Ruby."""

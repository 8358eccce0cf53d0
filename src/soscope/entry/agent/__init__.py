# SPDX-License-Identifier: Apache-2.0
"""The agent in a process: putting it there, finding it, taking it back."""

# SPDX-License-Identifier: Apache-2.0
"""The slots of a process: what each holds now, and the code that goes through it."""

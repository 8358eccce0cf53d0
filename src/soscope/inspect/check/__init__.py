# SPDX-License-Identifier: Apache-2.0
"""`check`: faults of a file, and its stubs run."""

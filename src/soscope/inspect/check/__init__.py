# SPDX-License-Identifier: Apache-2.0
"""`check`: find faults in a file, and run its stubs."""

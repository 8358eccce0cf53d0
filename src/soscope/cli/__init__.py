# SPDX-License-Identifier: Apache-2.0
"""The command line: one module for each verb, and `main`, which imports only that one."""

# SPDX-License-Identifier: Apache-2.0
"""Call functions of a process in one of its own threads, while its other threads run."""

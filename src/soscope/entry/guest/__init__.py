# SPDX-License-Identifier: Apache-2.0
"""Functions of a process that one of its own threads calls for us, while the others run."""

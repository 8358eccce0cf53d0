# SPDX-License-Identifier: Apache-2.0
"""`explain`: the steps of one call, in a file or a process."""

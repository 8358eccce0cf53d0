# SPDX-License-Identifier: Apache-2.0
"""`explain`: the path of one call, in a file or a process."""

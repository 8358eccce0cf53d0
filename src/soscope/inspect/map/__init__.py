# SPDX-License-Identifier: Apache-2.0
"""`map -p`: the slots of a process."""

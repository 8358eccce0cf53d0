# SPDX-License-Identifier: Apache-2.0
"""What verbs that only look find out; nothing is printed here."""

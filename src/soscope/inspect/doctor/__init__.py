# SPDX-License-Identifier: Apache-2.0
"""`doctor`: what works on this system, and with one process or file."""

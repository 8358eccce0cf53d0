# SPDX-License-Identifier: Apache-2.0
"""`doctor`: what works here, and with a process or file."""

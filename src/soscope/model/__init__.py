# SPDX-License-Identifier: Apache-2.0
"""The classes for images, slots and calls, which all other parts use; no input or output here.

All code that runs between the command line and the start of the traced program uses these
classes. So their base is `record.Record`, because importing dataclasses costs milliseconds. They
are immutable by convention: no code changes an instance after making it.
"""

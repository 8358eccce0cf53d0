# SPDX-License-Identifier: Apache-2.0
"""What soscope talks about: images, slots, calls. No input or output here.

Everything on the way from the command line to a started program uses these classes, so
they are plain classes with ``__slots__``: a dataclass costs milliseconds at import. They are
immutable by convention: nobody changes one after making it.
"""

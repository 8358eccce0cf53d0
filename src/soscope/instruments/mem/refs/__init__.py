# SPDX-License-Identifier: Apache-2.0
"""`soscope mem refs`: find what keeps the objects of one line alive.

The interpreter tells the agent which objects refer to which, and the agent tells soscope, while
the process stands still. `graph` has these references. `search` finds paths from objects up to
what the interpreter itself holds. `pythonpaths` and `rubypaths` name the steps of the paths, and
`refs` chooses the objects.
"""

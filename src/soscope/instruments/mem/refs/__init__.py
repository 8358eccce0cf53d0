# SPDX-License-Identifier: Apache-2.0
"""Who holds the objects of one line: `soscope mem refs`.

The interpreter tells the agent which objects refer to which, and the agent tells soscope, while all
stands as it is. `graph` holds that, `search` finds ways from objects up to what the interpreter
itself holds, `pythonpaths` and `rubypaths` give them names, `refs` chooses the objects.
"""

# SPDX-License-Identifier: Apache-2.0
"""An oscilloscope for shared objects: it shows the calls between a process's libraries.

The names here are loaded when they are first used; `import soscope` costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope import mem, prof
    from soscope.errors import SoscopeError
    from soscope.hooking.hook import Hook, hook
    from soscope.instruments.trace.api import Call, Recording, trace
    from soscope.instruments.trace.api import open_recording as open  # noqa: A004  soscope.open
    from soscope.linker.image import Image, Slot
    from soscope.live.lookup.answer import Answer
    from soscope.live.process import Process
    from soscope.live.slots.bindings import Binding

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Binding",
    "Call",
    "Hook",
    "Image",
    "Process",
    "Recording",
    "Slot",
    "SoscopeError",
    "__version__",
    "hook",
    "mem",
    "open",
    "prof",
    "trace",
]

# public name -> (module, name in that module; without it, the module itself)
_LAZY = {
    "Answer": ("soscope.live.lookup.answer", "Answer"),
    "Binding": ("soscope.live.slots.bindings", "Binding"),
    "Call": ("soscope.instruments.trace.api", "Call"),
    "Hook": ("soscope.hooking.hook", "Hook"),
    "Image": ("soscope.linker.image", "Image"),
    "Process": ("soscope.live.process", "Process"),
    "Recording": ("soscope.instruments.trace.api", "Recording"),
    "Slot": ("soscope.linker.image", "Slot"),
    "SoscopeError": ("soscope.errors", "SoscopeError"),
    "hook": ("soscope.hooking.hook", "hook"),
    "mem": ("soscope.mem", ""),
    "open": ("soscope.instruments.trace.api", "open_recording"),
    "prof": ("soscope.prof", ""),
    "trace": ("soscope.instruments.trace.api", "trace"),
}


def __getattr__(name: str) -> object:
    """Load a public name on its first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'soscope' has no attribute '{name}'")
    from importlib import import_module

    module, attribute = _LAZY[name]
    value: object = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names, too."""
    return sorted({*globals(), *_LAZY})

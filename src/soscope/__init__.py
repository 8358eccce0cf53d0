# SPDX-License-Identifier: Apache-2.0
"""An oscilloscope for shared objects: what crosses a library's boundary in a live process.

The names here are loaded when they are first used; `import soscope` costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.errors import SoscopeError
    from soscope.instruments.trace.live import trace
    from soscope.linker.image import Image
    from soscope.process.live import Process

__version__ = "0.1.0"

__all__ = ["Image", "Process", "SoscopeError", "__version__", "trace"]

# name -> (module, name there)
_LAZY = {
    "Image": ("soscope.linker.image", "Image"),
    "Process": ("soscope.process.live", "Process"),
    "SoscopeError": ("soscope.errors", "SoscopeError"),
    "trace": ("soscope.instruments.trace.live", "trace"),
}


def __getattr__(name: str) -> object:
    """Load a public name on its first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'soscope' has no attribute '{name}'")
    from importlib import import_module

    module, attribute = _LAZY[name]
    value: object = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names, too."""
    return sorted({*globals(), *_LAZY})

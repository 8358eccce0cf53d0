# SPDX-License-Identifier: Apache-2.0
"""Find the CRuby in a process, and check whether soscope can read its frames."""

from __future__ import annotations

from soscope.binfmt.elf.symbols.lookup import Name
from soscope.errors import FormatError, SoscopeError
from soscope.live.images.images import Images
from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.scope import is_musl
from soscope.live.ruby.isa import arch
from soscope.live.ruby.layout import LAYOUTS, RubyLayout

_OWN = "rb_tracepoint_new"  # only libruby has this symbol and the version
_VERSION = "ruby_version"
_CURRENT = "ruby_current_execution_context_ptr"  # of the GVL's holder; up to 2.7
_USES_CONTEXT = "rb_profile_frames"
_CODE = 64  # bytes of a function that are searched


class Ruby:
    """A CRuby in a process; addresses are run-time addresses.

    `current` is the address of the variable with the execution context of the thread that holds
    the GVL. It is 0 if each thread has a variable of its own. Then `variable` is that, as
    `first_variable` returns it.
    """

    __slots__ = ("current", "image", "is_musl", "layout", "objects", "variable")

    def __init__(self, image: LoadedImage, layout: RubyLayout) -> None:
        """Find these variables. Raises SoscopeError, with the reason, if Ruby cannot be read."""
        self.image = image
        self.layout = layout
        self.is_musl = False
        self.current = _addr_of(image, _CURRENT) or 0
        self.variable = (0, 0)
        self.objects = (_addr_of(image, "rb_cString") or 0, _addr_of(image, "rb_cArray") or 0)
        if not self.current:
            code = _addr_of(image, _USES_CONTEXT) or 0
            variable = arch.first_variable(image.space.read(code, _CODE), code)
            if variable is None:
                raise SoscopeError(
                    f"Ruby ({image.name}): where it has its execution context is unknown"
                )
            self.variable = variable


def find_ruby(images: Images) -> Ruby | None:
    """Return the CRuby among the images of a process, None if there is none.

    Raises SoscopeError, with the reason, if soscope cannot read it.
    """
    for image in [*images.linked, *images.all[len(images.linked) :]]:
        version = _addr_of(image, _VERSION)
        if version is None or _addr_of(image, _OWN) is None:
            continue
        text = images.space.read(version, 16).split(b"\0")[0].decode("latin-1")
        numbers = text.split(".")
        is_number = len(numbers) > 1 and all(map(str.isdecimal, numbers[:2]))
        layout = LAYOUTS.get((int(numbers[0]), int(numbers[1]))) if is_number else None
        if layout is None:
            raise SoscopeError(f"Ruby {text} ({image.name}): its frames are not known")
        ruby = Ruby(image, layout)
        ruby.is_musl = is_musl(images)
        return ruby
    return None


def _addr_of(image: LoadedImage, name: str) -> int | None:
    """Return the run-time address of a symbol that the image itself defines, else None."""
    try:
        entry = image.symbols.find(Name(name.encode()))
    except FormatError:
        return None  # a damaged image
    return None if entry is None else image.load_bias + entry.value

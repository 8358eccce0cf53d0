# SPDX-License-Identifier: Apache-2.0
"""Find the mangled names in a process that a demangled C++ name stands for."""

from __future__ import annotations

import os

from soscope.live.images.loadedimage import LoadedImage
from soscope.live.names.demangle import Demangler, NoDemangler, is_meant, part_of


def mangled_names(query: str, where: list[LoadedImage], why: list[str]) -> list[str]:
    """Return the mangled names in these images that `query` stands for, in order.

    These names are added to `why`, or a note that this machine has no demangler.
    """
    part = part_of(query)
    texts: dict[bytes, str] = {}
    demangler: Demangler | None = None
    for image in where:
        for _, symbols in image.locator.parts:
            for _, name in symbols.names(part):
                mangled = name.partition(b"@")[0]
                if mangled in texts or not mangled.startswith(b"_Z"):
                    continue
                if demangler is None:
                    try:
                        demangler = Demangler()
                    except NoDemangler as error:
                        why.append(str(error))
                        return []
                text = demangler(mangled)
                if text is not None and is_meant(query, text):
                    texts[mangled] = text
    why += [f"{text} is {os.fsdecode(mangled)}" for mangled, text in texts.items()]
    return [os.fsdecode(mangled) for mangled in texts]

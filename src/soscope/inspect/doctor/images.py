# SPDX-License-Identifier: Apache-2.0
"""One image of a program: how it was linked, and whether its slots can be hooked."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import features
from soscope.binfmt.elf.slots import slot_relocations
from soscope.entry.isa import arch
from soscope.errors import FormatError

_ET_REL, _ET_CORE = 1, 4
_NOTYPE = 0
_DF_BIND_NOW = 8
_DF_1_NOW = 1
_DF_1_PIE = 0x08000000

# What the agent can do with an image.
HOOKED = "hookable"
NOTHING = "nothing to hook"
NOT_HOOKED = "not hookable"
FOREIGN = "made for"

# weak symbols that hardly ever have a definition: hooks of tools, and start files
_NOWHERE = {
    "",
    "__gmon_start__",
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
    "_Jv_RegisterClasses",
}


class ImageReport:
    """The report on one image.

    `relro` is "none", "partial" or "full". `binding` is "lazy", "now", or "none" if the image has
    no slot for which it matters. `features` are "IBT" and "SHSTK". `calls` counts the functions
    called through a stub, `loads` the functions whose address is loaded (both are slots).
    `functions` are their names. `untyped` are those of them whose address is loaded and whose
    import is not marked as a function. `state` is one of the constants of this module, `why` its
    reason.
    """

    __slots__ = (
        "binding",
        "build_id",
        "calls",
        "features",
        "functions",
        "loads",
        "name",
        "path",
        "relro",
        "state",
        "untyped",
        "why",
    )

    def __init__(self, name: str, path: str, state: str, why: str) -> None:
        self.name = name
        self.path = path
        self.state = state
        self.why = why
        self.relro = self.binding = "none"
        self.features: list[str] = []
        self.build_id = ""
        self.calls = self.loads = 0
        self.functions: set[str] = set()
        self.untyped: set[str] = set()


def machine_name(image: ElfImage) -> str:
    """Return the name of the machine that an image was made for."""
    return "e_machine 0" if image.header is None else image.header.arch_name


def made_for(image: ElfImage) -> str:
    """Return the machine as text: "x86-64", "i386", "mips, big-endian", ..."""
    encoding = image.encoding
    name = machine_name(image)
    if encoding.bits != 64 and "64" in name:
        name += ", 32 bits"
    return name if encoding.order == "<" else f"{name}, big-endian"


def is_native(image: ElfImage) -> bool:
    """Return whether the agent exists for the image's machine."""
    header = image.header
    return header is not None and (image.encoding.bits, header.machine) == (arch.BITS, arch.MACHINE)


def foreign(image: ElfImage) -> str:
    """Return the text for an image of a machine without an agent."""
    return f"{FOREIGN} {made_for(image)}: there is no agent for it"


def linkage(image: ElfImage) -> str:
    """Return the kind of file, as text."""
    header = image.header
    assert header is not None
    if header.type == _ET_REL:
        return "object file, not linked yet"
    if header.type == _ET_CORE:
        return "core dump"
    has_dynamic = any(segment.type == c.PT_DYNAMIC for segment in image.segments)
    if header.type == c.ET_EXEC:
        if image.interpreter is None:
            return "static program"
        return "dynamic program, not position-independent"
    if image.interpreter is not None:
        is_program = (image.dynamic.get(c.DT_FLAGS_1) or 0) & _DF_1_PIE
        is_library = image.dynamic.get(c.DT_SONAME) is not None and not is_program
        if is_library:
            return "shared library that can be executed"
        return "dynamic program, position-independent"
    if not has_dynamic:
        return "static program"
    if (image.dynamic.get(c.DT_FLAGS_1) or 0) & _DF_1_PIE:
        return "static program, position-independent"
    return "shared library"


def binds_now(image: ElfImage) -> bool:
    """Return whether the loader binds all slots at load time."""
    dynamic = image.dynamic
    return (
        dynamic.get(c.DT_BIND_NOW) is not None
        or bool((dynamic.get(c.DT_FLAGS) or 0) & _DF_BIND_NOW)
        or bool((dynamic.get(c.DT_FLAGS_1) or 0) & _DF_1_NOW)
    )


def report(image: ElfImage, name: str, path: str, *, is_loader: bool = False) -> ImageReport:
    """Make the report on an image from its file. Never raises, whatever the file contains."""
    if not is_native(image):
        return ImageReport(name, path, NOT_HOOKED, foreign(image))
    report = ImageReport(name, path, HOOKED, "")
    try:
        _fill(report, image)
    except FormatError as error:
        return ImageReport(name, path, NOT_HOOKED, f"damaged: {error}")
    slots = report.calls + report.loads
    if is_loader:
        report.state, report.why = NOT_HOOKED, "the dynamic loader: its own calls are left alone"
    elif linkage(image).startswith("static") or image.dynamic.get(c.DT_SYMTAB) is None:
        report.state, report.why = NOT_HOOKED, "static: it has no slots"
    elif not slots:
        report.state, report.why = NOTHING, "it imports no function"
    return report


def _fill(report: ImageReport, image: ElfImage) -> None:
    has_relro = any(segment.type == c.PT_GNU_RELRO for segment in image.segments)
    is_now = binds_now(image)
    if has_relro:
        report.relro = "full" if is_now else "partial"
    report.features = features(image)
    report.build_id = image.build_id.hex()
    if image.dynamic.get(c.DT_SYMTAB) is None:
        return
    called: set[int] = set()
    loaded: set[int] = set()
    for relocation in slot_relocations(image):
        if relocation.symbol:
            (called if relocation.is_call else loaded).add(relocation.symbol)
    if called:
        report.binding = "now" if is_now else "lazy"
    names = {symbol.index: symbol for symbol in image.symbols} if called or loaded else {}
    called = {index for index in called if index in names and names[index].name}
    # a symbol without a type is a function, unless it is marked as data
    loaded = {
        index
        for index in loaded
        if index in names and names[index].type not in (c.STT_OBJECT, c.STT_TLS)
    }
    loaded = {index for index in loaded if names[index].name not in _NOWHERE}
    report.calls, report.loads = len(called), len(loaded)
    report.functions = {names[index].name for index in called | loaded}
    report.untyped = {
        names[index].name for index in loaded - called if names[index].type == _NOTYPE
    }


def settle(listed: list[tuple[ImageReport, ElfImage | None]]) -> None:
    """Remove names that are not functions from the reports, by the definitions of all images.

    An import may have no type: it can be data, or a weak symbol without a definition.
    """
    images = [image for _, image in listed if image is not None]
    known: dict[str, bool] = {}
    for report, _ in listed:
        for name in report.untyped:
            if name not in known:
                known[name] = _is_function(images, name)
        others = {name for name in report.untyped if not known[name]}
        report.loads -= len(others)
        report.functions -= others
        if report.state == HOOKED and not report.calls + report.loads:
            report.state, report.why = NOTHING, "it imports no function"


def _is_function(images: list[ElfImage], name: str) -> bool:
    """Return whether the first definition of a name is a function."""
    for image in images:
        try:
            symbol = image.symbol(name)
        except FormatError:
            continue  # damaged; others may define it
        if symbol is not None:
            return symbol.type not in (c.STT_OBJECT, c.STT_TLS)
    return False

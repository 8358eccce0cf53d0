# SPDX-License-Identifier: Apache-2.0
"""Read everything that one file has, for tests with damaged files; say what is partial."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.slots import relocations
from soscope.binfmt.macho.fat import Slice, embedded, slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import ByteSource, FileSource
from soscope.errors import FormatError, SoscopeError
from soscope.instruments.prof.check import look_at
from soscope.report import profcheck
from soscope.verbs.main import main


def elf_image(path: str) -> tuple[str, ...]:
    """Read an image's symbols, their versions, relocations and notes."""
    with Path(path).open("rb") as file:
        image = ElfImage.from_descriptor(file.fileno(), path)
        for symbol in image.symbols:
            image.symbol(symbol.name)
        for _ in relocations(image):
            pass  # reading them is what is looked at
        assert isinstance(image.needed, list)
        assert isinstance(image.build_id, bytes)
        image.undefined_functions()
    return ()


def elf_map(path: str) -> tuple[str, ...]:
    """Read the static map of an ELF file."""
    with Path(path).open("rb") as file:
        found = ElfMap(ElfImage.from_descriptor(file.fileno(), path))
        facts = (found.arch, found.bits, found.endian, found.kind, found.build_id, found.soname)
        rows = (found.needed, found.slots, found.stubs_without_slot, found.symbols)
        assert len(facts) + len(rows) == 10
    return tuple(found.partial)


def macho_map(path: str) -> tuple[str, ...]:
    """Read the static map of every image in a Mach-O file, its symbols and helpers, too."""
    with Path(path).open("rb") as file:
        source = FileSource(file.fileno(), path)
        hidden = embedded(source)
        return tuple(
            reason for part in [*slices(source), *hidden] for reason in _macho(source, part)
        )


def _macho(source: ByteSource, part: Slice) -> tuple[str, ...]:
    image = MachoMap(source, part)
    assert isinstance(image.symbols, tuple)
    assert isinstance(image.binds(), list)
    for slot in image.slots:
        if slot.helper is not None:
            image.decoded.helper(slot.helper)
        assert isinstance(image.why_no_library(slot), str)
    for stub in image.stubs:
        assert isinstance(image.stub_symbol(stub.vaddr), str)
    assert isinstance(image.stubs_without_slot, tuple)
    return image.partial


def explained(path: str) -> tuple[str, ...]:
    """Follow the calls of every fifth slot, and write all that can be written of them."""
    from soscope.inspect.explain.files import explain_files
    from soscope.linker.image import Image
    from soscope.report import explain, explainsvg

    reasons = []
    for image in Image.open(path).slices:
        for name in dict.fromkeys(one.symbol for one in image.slots[::5][:20] if one.symbol):
            explanation = explain_files([path], name, image.arch)
            assert isinstance(explain.text(explanation, 120), str)
            assert isinstance(explain.document(explanation), str)
            assert isinstance(explainsvg.document(explanation), str)
            reasons += [reason for importer in explanation.images for reason in importer.partial]
    return tuple(reasons)


def profilable(path: str) -> tuple[str, ...]:
    """Say how a file can be profiled, in text and in JSON."""
    try:
        found = look_at(path)
    except FormatError:
        raise
    except SoscopeError as error:  # it has become another kind of file
        return (error.message,)
    assert json.loads(profcheck.check_document(found))["image"] == path
    assert profcheck.check_text(found).startswith(path)
    return tuple(found.mapped.partial)


def printed(path: str) -> tuple[str, ...]:
    """Print what `map` and `check` have to say: an answer, or one sentence, and why it is partial.

    The exit status says 1 where there is a fault, or where something is partial or damaged.
    """
    status, out, err = _said("map", "--json", "--embedded", path)
    # The address space is limited: what cannot be had at all is said in one line.
    assert err.count("\n") <= 1, err
    if not out:
        assert (status, err.startswith("soscope: error: ")) == (1, True), (status, err)
        return (err,)
    assert out.endswith("]}\n"), (out[-200:], err)
    reasons = [reason for image in json.loads(out)["images"] for reason in image["partial"]]
    assert status == int(bool(reasons or err)), (status, reasons, err)
    for words in (["map", path], ["map", "--symbols", path], ["map", "--needed", path]):
        other, out, err = _said(*words)
        assert other in {0, 1}, (words, err)
        assert "Traceback" not in out + err
    other, out, err = _said("check", "--json", path)
    faults = (
        [
            one
            for image in json.loads(out)["images"]
            for one in image["faults"]
            if one["severity"] == "fault"
        ]
        if out
        else []
    )
    assert other == 1 or not faults
    return tuple(reasons)


def gmon(path: str) -> tuple[str, ...]:
    """Read a file of gprof or LD_PROFILE, and make a profile of it as one of this Python."""
    from soscope.binfmt.profiles import is_ldprofile, read_gmon, read_ldprofile
    from soscope.instruments.prof.gmon import gmon_profile
    from soscope.instruments.prof.names import ImageFunctions
    from soscope.report.prof import document

    with Path(path).open("rb") as file:
        source = FileSource(file.fileno(), path)
        if is_ldprofile(source):
            assert read_ldprofile(source).bits in {32, 64}
            return ()
        found = read_gmon(source)
    functions = ImageFunctions(os.path.realpath(sys.executable), with_lines=False)
    assert functions.elf is not None
    entry = functions.elf.header.entry if functions.elf.header is not None else 0
    try:
        profile = gmon_profile(found, functions, program_bias=entry - 0x1000)
    except FormatError:
        raise
    except SoscopeError:
        return ()  # nothing of it is there
    assert len(json.loads(document(profile))["arcs"]) <= len(found.arcs)
    return ()


def _said(*words: str) -> tuple[int, str, str]:
    """Call the command; what it writes goes by descriptors."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            status = main(list(words))
            sys.stdout.flush()
        finally:
            for number, one in enumerate(kept, 1):
                os.dup2(one, number)
                os.close(one)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
    return status, texts[0], texts[1]

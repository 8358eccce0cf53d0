# SPDX-License-Identifier: Apache-2.0
"""Find the images among files and folders."""

from __future__ import annotations

import errno
import os
import stat

from soscope.binfmt.source import READING
from soscope.errors import SoscopeError
from soscope.linker.image import Image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# First bytes of images: ELF, Mach-O thin (both sizes, both byte orders), fat, archives of them.
_MAGICS = (
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\xca\xfe\xba\xbf",
)


# errors that opening the file again will report
_OUR_OWN = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.EIO)
_JAVA = b"\xca\xfe\xba\xbe"  # Java's class files begin as a fat file does,
_MOST_SLICES = 44  # with a version in place of the number of slices


def in_path(name: str) -> str:
    """Return the path of the program that a shell would run by a bare name, such as `ls`.

    Return `name` itself if it has a slash, if a file is called so here, or if no folder of PATH
    has such a program.
    """
    if not name or "/" in name or os.path.lexists(name):
        return name
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return name


def files_below(paths: Iterable[str]) -> Iterator[str]:
    """Yield the named files, and those in named folders that begin as an image does.

    Folders are walked in order of names. Links in them are not followed, so that no file comes
    twice. Files and folders that may not be read are included, so that opening them reports the
    reason.
    """
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        closed: list[str] = []

        def keep(error: OSError, closed: list[str] = closed) -> None:
            closed.append(os.fsdecode(error.filename))

        for folder, folders, names in os.walk(path, onerror=keep):
            folders.sort()
            for name in sorted(names):
                file = os.path.join(folder, name)
                if _may_be_image(file):
                    yield file
        yield from closed


def _may_be_image(path: str) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        descriptor = os.open(path, READING)
    except OSError as error:
        return error.errno in _OUR_OWN
    try:
        begin = os.read(descriptor, 8)
    except OSError as error:
        return error.errno in _OUR_OWN
    finally:
        os.close(descriptor)
    is_java = begin[:4] == _JAVA and int.from_bytes(begin[4:], "big") > _MOST_SLICES
    return begin[:4] in _MAGICS and not is_java


def shortfall(error: OSError | MemoryError) -> str:
    """Return why a file could not be read completely."""
    if isinstance(error, MemoryError):
        return os.strerror(errno.ENOMEM).lower()
    return (error.strerror or str(error)).lower()


def images_of(
    paths: Sequence[str],
    arch: str | None = None,
    *,
    sysroot: str = "",
    embedded: bool = False,
    tick: Callable[[str], None] | None = None,
) -> Iterator[tuple[Image | None, str]]:
    """Yield each image of each file, or None and an error line for the file.

    Files are closed after each image, and a lack of memory is reported for the image that it
    affects. `tick` is called with each path. If there are several files, those without an image
    for `arch` are left out, unless none would be left.
    """
    is_any = arch is None or not paths
    for path in paths:
        if tick is not None:
            tick(path)
        try:
            opened = Image.open(path, arch, sysroot=sysroot, embedded=embedded)
        except (OSError, MemoryError) as error:
            yield None, f"{path}: {shortfall(error)}"
        except SoscopeError as error:
            if len(paths) == 1 or error.slug != "no-such-arch":
                yield None, f"{error.message}{f' ({error.hint})' if error.hint else ''}"
            else:
                continue
        else:
            for image in opened.slices:
                yield image, ""
            opened.close()
            for why in opened.damaged:
                yield None, why
        is_any = True
    if not is_any:
        yield None, f"no image for {arch} in {len(paths):,} files"

# SPDX-License-Identifier: Apache-2.0
"""The table of offsets against the headers of each Python of this machine that has them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from soscope.live.python.offsets import NOTHING, layout_of
from tests.support.machines.pythons import DISTRIBUTION, pythons
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.build import made_in

_QUESTION = "import sys, sysconfig; print((sysconfig.get_path('include'), sys.version_info[:2]))"

# field: struct and member; of all versions, then of some
EVERY = {
    "tstate_interp": "PyThreadState interp",
    "tstate_thread_id": "PyThreadState thread_id",
    "code_filename": "PyCodeObject co_filename",
    "code_name": "PyCodeObject co_name",
    "code_firstlineno": "PyCodeObject co_firstlineno",
    "code_stacksize": "PyCodeObject co_stacksize",
    "code_extra": "PyCodeObject co_extra",
    "code_consts": "PyCodeObject co_consts",
    "str_compact_data": "PyUnicodeObject data",
    "str_utf8_length": "PyCompactUnicodeObject utf8_length",
    "heaptype_name": "PyHeapTypeObject ht_name",
    "heaptype_qualname": "PyHeapTypeObject ht_qualname",
    "heaptype_cached_keys": "PyHeapTypeObject ht_cached_keys",
    "object_refcnt": "PyObject ob_refcnt",
    "object_type": "PyObject ob_type",
    "var_size": "PyVarObject ob_size",
    "type_name": "PyTypeObject tp_name",
    "type_basicsize": "PyTypeObject tp_basicsize",
    "type_itemsize": "PyTypeObject tp_itemsize",
    "type_flags": "PyTypeObject tp_flags",
    "type_methods": "PyTypeObject tp_methods",
    "type_base": "PyTypeObject tp_base",
    "type_dict": "PyTypeObject tp_dict",
    "type_mro": "PyTypeObject tp_mro",
    "str_length": "PyASCIIObject length",
    "str_state": "PyASCIIObject state",
    "bytes_data": "PyBytesObject ob_sval",
    "dict_keys": "PyDictObject ma_keys",
    "dict_values": "PyDictObject ma_values",
    "function_code": "PyFunctionObject func_code",
    "function_defaults": "PyFunctionObject func_defaults",
    "function_kwdefaults": "PyFunctionObject func_kwdefaults",
    "tuple_data": "PyTupleObject ob_item",
}
# What is no offset of a member: other tests read objects of each version with it.
FORMS = """
version instr_kind dict_keys_head dict_values_head managed_dict presize_flags line_table
inline_values least_digits runtime_places debug_groups static_types_have_head has_log2_keys
has_tagged_int has_wide_state bytearray_has_bytes frames_nest chains_dying has_immortals
"""
OLD = {
    "tstate_frame": "PyThreadState frame",
    "frame_code": "PyFrameObject f_code",
    "frame_previous": "PyFrameObject f_back",
    "frame_instr": "PyFrameObject f_lasti",
    "frame_data": "PyFrameObject f_localsplus",
    "code_nlocals": "PyCodeObject co_nlocals",
    "code_varnames": "PyCodeObject co_varnames",
    "code_freevars": "PyCodeObject co_freevars",
    "code_cellvars": "PyCodeObject co_cellvars",
}
NEW = {
    "frame_previous": "_PyInterpreterFrame previous",
    "frame_owner": "_PyInterpreterFrame owner",
    "frame_data": "_PyInterpreterFrame localsplus",
    "code_qualname": "PyCodeObject co_qualname",
    "code_linetable": "PyCodeObject co_linetable",
    "code_bytecode": "PyCodeObject co_code_adaptive",
    "code_nlocals": "PyCodeObject co_nlocalsplus",
    "code_varnames": "PyCodeObject co_localsplusnames",
    "generator_frame": "PyGenObject gi_iframe",
    "frameobject_data": "PyFrameObject _f_frame_data",
    "dict_keys_head": "PyDictKeysObject dk_indices",
}
CFRAME = {
    "tstate_frame": "PyThreadState cframe",
    "cframe_frame": "_PyCFrame current_frame",
    "frame_code": "_PyInterpreterFrame f_code",
    "frame_instr": "_PyInterpreterFrame prev_instr",
}
CURRENT = {
    "tstate_frame": "PyThreadState current_frame",
    "frame_code": "_PyInterpreterFrame f_executable",
    "frame_instr": "_PyInterpreterFrame instr_ptr",
}
SIZES = {
    "str_ascii_data": "PyASCIIObject",
    "str_compact_data": "PyCompactUnicodeObject",
    "str_legacy_size": "PyUnicodeObject",
    "heaptype_size": "PyHeapTypeObject",
    "type_size": "PyTypeObject",
}
HEAD = """
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX < 0x030b0000
#include <code.h>
#include <frameobject.h>
#else
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#define SHIM FRAME_OWNED_BY_INTERPRETER
#elif PY_VERSION_HEX >= 0x030c0000
#define SHIM FRAME_OWNED_BY_CSTACK
#else
#define SHIM 0xffffffffu
#endif
int main(void)
{
    printf("owner_shim %u\\n", (unsigned)SHIM);
"""


def members(version: tuple[int, int]) -> dict[str, str]:
    """Return the struct and the member that each field stands for in a version."""
    wide = {"str_wide": "PyASCIIObject wstr"} if version < (3, 12) else {}
    if version < (3, 11):
        table = "co_lnotab" if version == (3, 9) else "co_linetable"
        return EVERY | wide | OLD | {"code_linetable": f"PyCodeObject {table}"}
    entry = {"frame_entry": "_PyInterpreterFrame is_entry", "generator_code": "PyGenObject gi_code"}
    only = entry if version == (3, 11) else {}
    return EVERY | wide | NEW | only | (CFRAME if version < (3, 13) else CURRENT)


def headers() -> list[tuple[str, str, tuple[int, int]]]:
    """Return (interpreter, folder of its headers, version) of those that have all headers."""
    rows = []
    for python in pythons():
        folder, version = ast.literal_eval(run([python, "-c", _QUESTION]).stdout)
        if python == DISTRIBUTION or Path(folder, "internal").is_dir():
            rows.append((python, folder, version))
    return rows


@pytest.mark.every(2)
@pytest.mark.parametrize(("python", "folder", "version"), headers())
def test_offsets_are_those_of_the_headers(
    python: str, folder: str, version: tuple[int, int], tmp_path: Path
) -> None:
    need(f"{folder}/Python.h")
    wanted = {field: tuple(text.split()) for field, text in members(version).items()}
    lines = [
        f'    printf("{field} %zu\\n", offsetof({struct}, {member}));'
        for field, (struct, member) in wanted.items()
    ]
    lines += [f'    printf("{field} %zu\\n", sizeof({struct}));' for field, struct in SIZES.items()]
    source, program = tmp_path / "offsets.c", tmp_path / "offsets"
    source.write_text(HEAD + "\n".join(lines) + "\n    return 0;\n}\n")
    places = [f"-I{path}" for path in (folder, f"{folder}/internal", Path(folder).parent)]
    made_in(tmp_path, "gcc", "-w", *places, source, "-o", program)
    said = dict(line.split() for line in run([program]).stdout.splitlines())
    layout = layout_of(version)
    assert {field: int(value) for field, value in said.items()} == {
        field: getattr(layout, field) for field in said
    }, python
    told = {*said, *FORMS.split()}
    rest = {field for field in type(layout).__annotations__ if field not in told}
    assert {getattr(layout, field) for field in rest} <= {NOTHING}  # nothing else is claimed

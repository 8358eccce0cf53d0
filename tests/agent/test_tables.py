# SPDX-License-Identifier: Apache-2.0
"""site.c, park.c, stats.c, changes.c and lookup.c: tables that threads and signals share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent import hosted
from tests.support.machines.tools import need
from tests.support.targets.build import made_in


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_parked_calls_are_found_as_long_as_they_are_alive(seed: int) -> None:
    hosted.check("parked", str(0x9E3779B97F4A7C15 * seed & (1 << 63) - 1))


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_return_trampolines(compiler: str) -> None:
    hosted.check("sites", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_the_journal_of_changes(compiler: str) -> None:
    hosted.check("changes", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_statistics_add_up(compiler: str) -> None:
    hosted.check("stats", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_the_agents_frames_are_left_out_of_walks(compiler: str) -> None:
    assert hosted.check("backtrace", compiler=compiler) == "done\n"


@pytest.mark.every(2)
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_symbols_are_found_as_the_loader_finds_them(style: str, tmp_path: Path) -> None:
    source = tmp_path / "many.c"
    names = [f"function_{number * number}" for number in range(400)]
    source.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in names))
    library = tmp_path / "libmany.so"
    words = ["gcc", "-shared", "-fPIC", f"-Wl,--hash-style={style}"]
    made_in(tmp_path, *words, source, "-o", library)
    assert not hosted.check("lookup", library, "libm.so.6", "libstdc++.so.6")


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_capture_programs_keep_what_is_there(compiler: str) -> None:
    hosted.check("capture", compiler=compiler)
    hosted.check("wide", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_what_scanf_has_stored_is_kept(compiler: str) -> None:
    hosted.check("filled", str(0x9E3779B97F4A7C15), "4000", compiler=compiler)


LINKED = {  # to addresses of their own; sanitizers have the lower one's place
    "low": ["-fuse-ld=bfd", "-Wl,-Ttext-segment=0x3f000000000"],
    "high": ["-fuse-ld=bfd", "-Wl,-Ttext-segment=0x7ffffa000000"],
    "rodynamic": ["-fuse-ld=lld", "-Wl,--image-base=0x3e000000000,-z,rodynamic"],
    "rodynamic-high": ["-fuse-ld=lld", "-Wl,--image-base=0x7ffff9000000,-z,rodynamic"],
}


@pytest.mark.covering(1, always=["2-high"])  # the bias of the second one is below 0
@pytest.mark.parametrize("flags", LINKED.values(), ids=LINKED)
@pytest.mark.parametrize("copies", [1, 2])
def test_symbols_of_images_that_begin_elsewhere(
    copies: int, flags: list[str], tmp_path: Path
) -> None:
    need("ld.lld")
    source = tmp_path / "few.c"
    source.write_text("".join(f"int few_{n}(void) {{ return {n}; }}\n" for n in range(50)))
    libraries = []
    for copy in range(copies):  # the second cannot have the address
        library = tmp_path / f"libfew{copy}.so"
        made_in(tmp_path, "gcc", "-shared", "-fPIC", *flags, source, "-o", library)
        libraries.append(library)
    assert not hosted.check("lookup", *libraries, "libm.so.6", "libstdc++.so.6")


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_the_lists_of_other_namespaces(compiler: str, tmp_path: Path) -> None:
    source, script = tmp_path / "global.c", tmp_path / "global.map"
    source.write_text("char _rtld_global[4000] __attribute__((aligned(16)));\n")
    script.write_text("GLIBC_PRIVATE { _rtld_global; };\n")
    library = tmp_path / "libglobal.so"
    words = ["gcc", "-shared", "-fPIC", f"-Wl,--version-script={script}"]
    made_in(tmp_path, *words, source, "-o", library)
    hosted.check("namespaces", library, compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_each_sampled_block_ends_once(compiler: str) -> None:
    hosted.check("sample", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_each_block_is_recorded_once_and_ends_once(compiler: str) -> None:
    hosted.check("blocks", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_times_of_threads_are_in_the_order_of_what_they_do(compiler: str) -> None:
    hosted.check("lead", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_no_index_of_shared_memory_leads_out_of_it(compiler: str) -> None:
    hosted.check("shared", compiler=compiler)


@pytest.mark.parametrize("compiler", hosted.COMPILERS)
def test_a_full_table_of_stacks_is_not_searched(compiler: str) -> None:
    hosted.check("stacks", compiler=compiler)


def test_a_slot_has_the_same_cells_each_time() -> None:
    hosted.check("cells")

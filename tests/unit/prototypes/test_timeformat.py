# SPDX-License-Identifier: Apache-2.0
"""Which members of struct tm a format names, against what strftime does when they change."""

from __future__ import annotations

import subprocess
from pathlib import Path

from soscope.prototypes.show import members_of
from tests.support.targets.build import made_in
from tests.support.time.patience import limit

LETTERS = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ"
# Read, but seldom of any consequence: at the borders of years, or where there is no zone.
MORE = {"g": {"tm_wday"}, "G": {"tm_wday"}, "V": {"tm_year"}}
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <time.h>
static const char *names[] = {"sec", "min", "hour", "mday", "mon", "year", "wday", "yday", "isdst"};
int main(int count, char **words)
{
    struct tm of = {5, 4, 3, 2, 1, 126, 1, 32, 0, 3600, "ABC"}, other;
    for (const char *letter = words[count - 1]; *letter; letter++) {
        char format[] = {'%', *letter, 0}, first[99], second[99];
        strftime(first, sizeof(first), format, &of);
        printf("%c", *letter);
        for (int i = 0; i < 9; i++)
            for (int by = -40, found = 0; by <= 40 && !found; by++) {
                other = of;
                ((int *)&other)[i] += by;
                strftime(second, sizeof(second), format, &other);
                if ((found = !!strcmp(first, second)))
                    printf(" tm_%s", names[i]);
            }
        other = of, other.tm_gmtoff = 7200;
        strftime(second, sizeof(second), format, &other);
        printf("%s", strcmp(first, second) ? " tm_gmtoff" : "");
        other = of, other.tm_zone = "XYZ";
        strftime(second, sizeof(second), format, &other);
        puts(strcmp(first, second) ? " tm_zone" : "");
    }
    return 0;
}
"""


def test_members_are_those_that_strftime_reads(tmp_path: Path) -> None:
    source, program = tmp_path / "reads.c", tmp_path / "reads"
    source.write_text(PROGRAM)
    made_in(tmp_path, "gcc", "-w", source, "-o", program)
    done = subprocess.run(
        [program, LETTERS], capture_output=True, text=True, check=True, timeout=limit()
    )
    read = {line.split()[0]: set(line.split()[1:]) for line in done.stdout.splitlines()}
    assert len(read) == len(LETTERS)
    for letter, members in read.items():
        named = members_of(f"%{letter}".encode())
        assert set(named or ()) == members | MORE.get(letter, set()), letter


def test_flags_widths_and_modifiers_stand_between() -> None:
    found = members_of(b"%Ey %-d %^10b %Od 100%%")
    assert found == frozenset(("tm_year", "tm_mday", "tm_mon"))
    assert members_of(b"nothing") == frozenset()
    assert members_of(b"%Q") is None
    assert members_of(b"%") is None

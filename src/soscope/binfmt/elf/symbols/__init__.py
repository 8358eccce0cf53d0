# SPDX-License-Identifier: Apache-2.0
"""The dynamic symbols of an image, in a file or in memory: one reader for all callers.

`table` is the symbol table and look-ups in it as a loader does them. `lookup` reads its hash
tables. `match` is the loader's choice among symbols of one name. `versions` maps the numbers of
DT_VERSYM to names. `array` is a table that was read whole, also .symtab. `imports` has the names
in relocations.
"""

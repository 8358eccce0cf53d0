# SPDX-License-Identifier: Apache-2.0
"""The dynamic symbols of an image, in a file or in memory: one reader, one rule for everybody.

`table` is the table and what a loader finds in it, `lookup` its hash tables, `match` the loader's
choice among symbols of one name, `versions` what DT_VERSYM's numbers mean. `array` is a table that
was read whole, .symtab included; `imports` has the names that relocations want.
"""

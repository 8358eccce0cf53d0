# SPDX-License-Identifier: Apache-2.0
# `ruby asked.rb STATS TRUTH PROGRAM`: what PROGRAM leaves alive, as Memprof and as ObjectSpace say.

require "memprof"
require "objspace"

stats, truth, program = ARGV
ARGV.clear
ObjectSpace.trace_object_allocations_start
Memprof.start
load program
GC.start
GC.disable
Memprof.stats(stats)
counts = Hash.new(0)
ObjectSpace.each_object(BasicObject) do |object|
  file = ObjectSpace.allocation_sourcefile(object) or next
  type = Kernel.instance_method(:class).bind_call(object).name || "#<Class>"
  counts[[file, ObjectSpace.allocation_sourceline(object), type]] += 1
end
rows = counts.sort_by { |place, count| [-count, *place] }
File.write(truth, rows.map { |place, count| format("%7d %s:%d:%s\n", count, *place) }.join)

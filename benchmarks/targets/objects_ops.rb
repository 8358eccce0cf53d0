# SPDX-License-Identifier: Apache-2.0
# Make and drop small objects, some of which stay: the CPU time of each part, in ns an object.
# The second word names what counts them beside it: nothing, objspace or memory_profiler.

PARTS = Integer(ARGV[0])
TURNS = Integer(ARGV[1])
OBJECTS = 6 # that a turn makes

Node = Struct.new(:first, :second)

def part
  kept = []
  TURNS.times do |turn|
    pair = [turn, turn.to_s]
    table = { key: pair }
    row = [Node.new(pair, table), turn.to_s]
    kept << row if turn % 100 == 0
  end
  kept
end

def parts
  PARTS.times do
    start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    part
    passed = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start
    puts 1e9 * passed / (TURNS * OBJECTS)
  end
end

case ARGV[2]
when "objspace"
  require "objspace"
  ObjectSpace.trace_object_allocations { parts }
when "memory_profiler"
  require "memory_profiler"
  MemoryProfiler.report { parts }
else
  parts
end

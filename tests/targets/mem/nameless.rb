# SPDX-License-Identifier: Apache-2.0
# Classes without a name, each with an object: they end when it does.
require "io/wait"

def make(count)
  count.times do
    one = Class.new { def initialize = @value = 1 }
    one.new
  end
end

def serve
  loop do
    sleep 0.001 until $stdin.wait_readable(0)
    case $stdin.gets&.chomp
    when "make" then make(2000)
    when "end" then 3.times { GC.start }
    when "fill" then $filled = Array.new(20_000) { |number| "a string of its own: #{number}" }
    else break
    end
    puts "did"
    $stdout.flush
  end
end

case ARGV[0]
when "serve" then serve
when "condemned" # a collection has marked, and has not swept
  make(3000)
  GC.start(full_mark: true, immediate_sweep: false)
when "unheard" # while a hook of objspace's runs, no other one is told of what Ruby collects
  require "objspace"
  GC.disable
  make(2000)
  ObjectSpace.trace_object_allocations_start
  GC.enable
  GC.stress = true # each malloc collects, and so does the hook's
  Object.new
  GC.stress = false
  ObjectSpace.trace_object_allocations_stop
  $filled = Array.new(20_000) { |number| "a string of its own: #{number}" }
end
puts "the end"

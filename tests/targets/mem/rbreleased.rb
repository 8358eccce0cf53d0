# SPDX-License-Identifier: Apache-2.0
# Takes blocks without the GVL, by the extension of lib_released.c, and keeps them.
#
#	ruby rbreleased.rb LIBRARY cases [kill]
#	ruby rbreleased.rb LIBRARY storm THREADS TURNS compact|auto|stress
#	ruby rbreleased.rb LIBRARY grow
#
# It says at its end, for each size, a line of JSON: [size, [[label, path, line], ...]], the innermost
# first. "grow" says "ready" and takes blocks of one size, at the line that has its name, until it is
# killed.

require "json"
library, what, *words = ARGV
require library

SAID = {}

def frames
  caller_locations(2).filter_map do |at|
    label = at.label.sub(/(\A| )[A-Z][\w:]*[#.]/, '\1')
    [label, at.path, at.lineno] unless %w[each eval fork resume join times new].include?(label)
  end
end

def said(size)
  SAID[size] = frames
  size
end

def deep(depth, &block)
  depth.zero? ? block.call : deep(depth - 1, &block)
end

def cases(how)
  Released.take(said(20_001), 1)
  [1].each { 3.times { Released.take(said(20_002), 100) } }
  Fiber.new { Released.take(said(20_003), 2) }.resume
  Thread.new { Released.take(said(20_004), 2) }.join
  Released.in_thread(20_005, 2)
  SAID[20_005] = []
  Released.in_child(said(20_006), 2)
  Released.in_handler(said(20_007), 2)
  child = fork { Released.take(said(20_008), 2); puts JSON.generate([20_008, SAID[20_008]]); $stdout.flush; exit!(0) }
  Process.wait(child)
  deep(100) { Released.take(said(20_009), 2) }
  SAID.each { |line| puts JSON.generate(line) }
  $stdout.flush
  Process.kill("KILL", Process.pid) if how == "kill"
end

# Code that is made, run and collected, and other code in its place.
def turn(number, at)
  size = 200_000 + number * 100 + at % 7 * 10
  SAID[size] = [["made_#{number}", "made#{number}_#{at % 7}.rb", 2 + at % 7]]
  text = "def self.made_#{number}\n#{"\n" * (at % 7)}Released.take(#{size}, 3)\nend\nmade_#{number}"
  eval(text, binding, "made#{number}_#{at % 7}.rb", 1)
end

STIRS = {
  "compact" => -> { GC.compact },
  "auto" => -> { GC.auto_compact = true; GC.start },
  "stress" => -> { GC.stress = true; 3.times { "a" * 50 }; GC.stress = false }
}.freeze

# Others move all that can be moved, or collect all the time.
def storm(threads, turns, how)
  is_over = false
  stirs = Thread.new { STIRS.fetch(how).call until is_over }
  workers = Array.new(Integer(threads)) do |number|
    Thread.new { Integer(turns).times { |at| turn(number, at) } }
  end
  workers.each(&:join)
  is_over = true
  stirs.join
  SAID.each { |line| puts JSON.generate(line) }
end

def grow
  puts "ready"
  $stdout.flush
  loop do
    Released.take(30_001, 1) # grow
    sleep 0.002
  end
end

send(what, *words[0, method(what).arity.abs])

# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: false
# Keeps 1234 strings, and ends in the way that its argument names.

Kept = Struct.new(:value)
KEPT = Array.new(1234) { "k" } # alive: 1234 String
OWN = Array.new(77) { Kept.new } # alive: 77 Kept
$stdout.puts "here"
$stdout.flush
case ARGV[0]
when "kill" then Process.kill(:KILL, $$)
when "term" then Process.kill(:TERM, $$)
when "exit!" then exit!(3)
when "exec" then exec("/bin/true")
when "exit" then exit(5)
when "raise" then raise ArgumentError
when "abort" then abort("bye")
when "system" then system("/bin/true")
when "atexit"
  at_exit do
    $first = Array.new(50) { Object.new } # alive: 50 Object
    at_exit { $second = Array.new(60) { Object.new } } # alive: 60 Object
  end
when "fork"
  pid = fork do
    KEPT.clear
    $mine = Array.new(555) { Object.new } # alive: 555 Object
    exit!(0)
  end
  Process.wait(pid)
when "ractor"
  Warning[:experimental] = false
  ractor = Ractor.new { 41 + 1 }
  puts ractor.respond_to?(:take) ? ractor.take : ractor.value
when "compact"
  KEPT.replace(KEPT.each_slice(2).map(&:first)) # the others leave room
  3.times { GC.compact }
  Process.kill(:KILL, $$) if ARGV[1]
when "points"
  TracePoint.new(:call, :c_call) { |point| point.path }.enable
  require "objspace"
  ObjectSpace.trace_object_allocations_start
  40_000.times { |i| "x#{i}" * 9 }
  GC.start
  $more = Array.new(321) { Object.new } # alive: 321 Object
when "busy"
  Array.new(10) { Object.new } && sleep(0.001) until File.exist?(ARGV[1])
  GC.compact
  puts KEPT.size
end
sleep if %w[kill term].include?(ARGV[0])

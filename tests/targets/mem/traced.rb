# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

# Traces what it does; says beside it what it has done.
require "memprof"
require "tempfile"

def traced(&block)
  Tempfile.create("traced") do |file|
    Memprof.trace(file.path, &block)
    lines = File.readlines(file.path)
    abort "#{lines.size} lines" unless lines.size == 1
    return lines[0]
  end
end

null = File.open("/dev/null", "w")
null.sync = true
number = 1e300

2.times do
  puts(traced do
    30.times { |size| null.syswrite("x" * size) }
    20.times { number + 1.5e300 }
    10.times { Module.new }
    5.times { GC.start }
  end)
end
threads = traced do
  Array.new(10) { Thread.new { 500.times { null.syswrite("abc") } } }.each(&:join)
end
puts threads
catch(:out) { Memprof.trace("/nowhere/at/all") { throw :out } }
begin
  Memprof.trace("/nowhere/at/all") { 1 }
rescue ArgumentError => error
  puts error.message
end
puts(Memprof.trace("/dev/null") { :result })
Memprof.trace("/dev/null") do
  child = fork do
    puts traced { null.syswrite("of the child") }
    $stdout.flush
  end
  Process.wait(child)
end
puts traced { nil }

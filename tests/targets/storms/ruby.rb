# SPDX-License-Identifier: Apache-2.0
# A storm in Ruby: fibers, collections, code, classes, children, signals and exceptions at once.
#
#	ruby ruby.rb SECONDS
#
# It prints "ready". SECONDS later, and not before each kind has done its least, it prints what
# they have done as one line of JSON, and ends with 7. A wrong result raises.
require "json"

LEAST = { fibers: 30, collections: 30, code: 300, children: 20, signals: 50, raises: 3000 }.freeze
done = LEAST.transform_values { 0 }
clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
finish = clock.() + Float(ARGV.fetch(0, 5))
over = -> { clock.() > finish && LEAST.all? { |kind, least| done[kind] >= least } }
expect = ->(right, what) { right or raise "storm: wrong: #{what}" }

Thread.abort_on_exception = true
Signal.trap("USR1") { done[:signals] += 1 if ("x" * 100).size == 100 }

turns = {
  fibers: lambda do
    fibers = Array.new(20) { |number| Fiber.new { |x| loop { x = Fiber.yield("a" * (x % 2000) + number.to_s) } } }
    30.times { |turn| fibers.each_with_index { |fiber, number| expect.(fiber.resume(turn) == "a" * turn + number.to_s, "a fiber") } }
  end,
  collections: lambda do
    kept = Array.new(200) { |number| { number => [number.to_s * 50] } }
    GC.start if done[:collections] % 7 == 0
    GC.compact if GC.respond_to?(:compact) && done[:collections] % 20 == 0
    expect.(kept[199][199][0].size == 150, "what a collection moved")
  end,
  code: lambda do
    number = done[:code]
    eval("def made#{number % 50}(x) = [x, x.to_s, { x: #{number} }]")
    expect.(send("made#{number % 50}", 3) == [3, "3", { x: number }], "a method that eval made")
    made = Class.new { def initialize = @kept = [1, 2] }
    20.times { made.new }
  end,
  children: lambda do
    child = fork { exit!(3) if [1, 2].map(&:to_s).size == 2 }
    expect.(Process.wait2(child)[1].exitstatus == 3, "a child's end")
    sleep 0.005
  end,
  signals: lambda do
    Process.kill("USR1", Process.pid)
    sleep 0.005
  end,
  raises: lambda do
    raise ArgumentError, "x" * 300
  rescue ArgumentError => error
    expect.(error.backtrace.any? && error.message.size == 300, "what was raised")
  end,
}

puts "ready"
$stdout.flush
threads = turns.map do |kind, turn|
  Thread.new do
    until over.()
      turn.()
      done[kind] += 1 unless kind == :signals
    end
  end
end
threads.each(&:join)
puts JSON.generate(done)
$stdout.flush
exit 7

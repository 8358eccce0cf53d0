# SPDX-License-Identifier: Apache-2.0
# Keeps blocks whose stacks Ruby tells, too: for each a line of JSON.
#
# [size, [[label, path, line], ...]], the innermost first, without methods that are written in C. The
# name of what ends the program may be given: kill.

require "fiddle"
require "json"
require "tmpdir"

KEPT = []
SAID = []
# methods of Ruby's own, most of them of C: it shows those at the line of who has called them
C = %w[
  == Integer __send__ bind_call call catch class_eval collect compact const_missing create
  define_method each each_entry each_pair each_slice each_with_index eval exit fetch fork
  garbage_collect group_by gsub hash included inherited initialize inject instance_eval
  instance_exec instance_method join kill load load_relative loop malloc map max max_by min_by
  new next open pass public_send raise reduce require require_relative respond_to? resume select
  send sleep sort sort_by start step stress= sum synchronize tap then times transform_values
  trap upto value with_index yield
].freeze

def frames(locations)
  locations.filter_map do |at|
    label = at.label.sub(/(\A| )[A-Z][\w:]*[#.]/, '\1')
    [label, at.path, at.lineno] unless C.include?(label)
  end
end

def say(size, locations)
  SAID << [size, frames(locations)]
end

def take(size)
  KEPT << String.new(capacity: size - 1); say(size, caller_locations(0))
end

def take_by_extension(size)
  KEPT << Fiddle.malloc(size); say(size, caller_locations(0))
end

def nested(size)
  inner(size)
end

def inner(size)
  take(size)
end

def blocks(size)
  [1].each do
    [2].map { take(size) }
  end
  [3].each_with_index { |_, at| 1.times { take(size + 1 + at) } }
end

def yielding
  yield
end

class Ordered
  include Comparable

  def initialize(size)
    @size = size
  end

  def <=>(_other)
    take(@size)
    0
  end

  def method_missing(_name, size)
    take(size)
  end

  def respond_to_missing?(*)
    true
  end

  define_method(:defined) { |size| take(size) }

  class << self
    def single(size)
      take(size)
    end
  end

  def to_s
    take(@size)
    "text"
  end
end

def recurse(depth, size)
  return take(size) if depth.zero?

  recurse(depth - 1, size)
end

def recurse_in_c(depth, size)
  return take(size) if depth.zero?

  [depth].each { |more| recurse_in_c(more - 1, size) }
end

def rescues(size)
  begin
    raise "no"
  rescue RuntimeError
    take(size)
  ensure
    take(size + 1)
  end
  catch(:done) do
    begin
      [1].each { throw :done }
    ensure
      take(size + 2)
    end
  end
  tries = 0
  begin
    tries += 1
    Integer("x")
  rescue ArgumentError
    retry if tries < 3
    take(size + 3)
  end
end

def fibers(size)
  fiber = Fiber.new do
    inner(size)
    Fiber.yield
    [1].each { inner(size + 1) }
  end
  fiber.resume
  take(size + 2)
  fiber.resume
  counter = Enumerator.new do |out|
    take(size + 3)
    out << 1
    take(size + 4)
    out << 2
  end
  counter.next
  counter.next
end

def threads(size)
  workers = (0...4).map do |number|
    Thread.new do
      20.times do |turn|
        inner(size + number * 100 + turn)
        Thread.pass
      end
    end
  end
  workers.each(&:join)
end

def evaluated(size)
  eval("take(#{size})")
  eval("\n\n  take(#{size + 1})", binding, "some/template.erb", 40)
  Ordered.class_eval("def evaluated(size)\n\n take(size)\nend", "made.rb", 7)
  Ordered.new(0).evaluated(size + 2)
  instance_eval { take(size + 3) }
  200.times do |turn| # code that is collected, and other code in its place
    eval("#{"\n" * (turn % 7)}take(#{size + 10 + turn})", binding, "made#{turn % 3}.rb")
    GC.start if (turn % 50).zero?
  end
end

def moved(size)
  inner(size)
  if GC.respond_to?(:compact)
    begin
      GC.compact
    rescue NotImplementedError
      nil
    end
  end
  inner(size)
  [1].each { take(size + 1) }
  GC.stress = true
  inner(size + 2)
  GC.stress = false
end

def extensions(size)
  take_by_extension(size)
  [1].each { take_by_extension(size + 1) }
end

TEXT = "a" * 100_000

def copy(size, function)
  tail = Fiddle::Pointer[TEXT] + (TEXT.size - size + 1)
  KEPT << function.call(tail); say(size, caller_locations(0))
end

def copy_deep(depth, size, function)
  depth.zero? ? copy(size, function) : copy_deep(depth - 1, size, function)
end

# C code allocates while this thread does not hold the lock, and then while it does. Of other versions, who
# does not hold it has no frames.
def without_lock(size)
  return unless ("3.0"..."3.4").cover?(RUBY_VERSION)

  [{}, { need_gvl: true }].each_with_index do |how, at|
    size += at * 1_000
    strdup = Fiddle::Handle::DEFAULT["strdup"]
    types = [[Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOIDP]
    function = Fiddle::Function.new(strdup, *types, **how)
    copy(size, function)
    copy_deep(20, size + 1, function)
    copy_deep(70, size + 2, function)
    [1].each { copy(size + 3, function) }
    Thread.new { copy_deep(3, size + 4, function) }.join
    Fiber.new { copy(size + 5, function) }.resume
    eval("\n\ncopy(#{size + 6}, function)", binding, "some/template.erb", 90)
    200.times do |turn| # code that is collected, and other code in its place
      eval("#{"\n" * (turn % 7)}copy(#{size + 10 + turn}, function)", binding, "made#{turn % 3}.rb")
      GC.start if (turn % 50).zero?
    end
  end
end

def required(size)
  $size = size
  Dir.mktmpdir do |folder|
    path = "#{folder}/part.rb"
    text = "class Part\n  take($size)\n  [1].each do\n    take($size + 1)\n  end\nend\n"
    File.write(path, text)
    load(path)
  end
end

def signals(size)
  trap("USR1") { take(size) }
  Process.kill("USR1", Process.pid)
  Thread.pass until SAID.any? { |known, _| known == size }
end

def all
  take(10_001)
  nested(10_101)
  blocks(10_201)
  yielding { take(10_301) }
  -> { inner(10_302) }.call
  proc { inner(10_303) }.yield
  method(:inner).to_proc.call(10_304)
  [10_305].each(&method(:inner))
  10_306.then { |size| take(size) }
  [Ordered.new(10_401), Ordered.new(10_401)].sort
  [Ordered.new(10_402), Ordered.new(10_402)].max
  Ordered.new(0).missing(10_403)
  Ordered.new(0).defined(10_404)
  Ordered.single(10_405)
  Ordered.new(0).public_send(:defined, 10_406)
  "a#{Ordered.new(10_407)}"
  recurse(20, 20_001)
  recurse(200, 20_002)
  recurse_in_c(6, 30_001)
  recurse_in_c(70, 30_002)
  rescues(40_001)
  fibers(40_101)
  threads(41_001)
  evaluated(42_001)
  moved(43_001)
  extensions(44_001)
  without_lock(60_001)
  required(45_001)
  signals(46_001)
end

all
pid = Process.respond_to?(:fork) && ARGV[0] != "kill" && fork do
  inner(50_001)
  puts JSON.generate(SAID.last)
  $stdout.flush
  exit!(0)
end
Process.wait(pid) if pid
at_exit do
  inner(51_001)
  puts(SAID.map { |said| JSON.generate(said) })
  $stdout.flush
  Process.kill("KILL", Process.pid) if ARGV[0] == "kill"
end

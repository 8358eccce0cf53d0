# Tells its own frames while it stands in them, and stops there.
#
# Each line is path, line and label, as Ruby itself has them.

def told
  frames = caller_locations(1)
  frames.each { |frame| puts "#{frame.path}\t#{frame.lineno}\t#{frame.label}" }
  puts
  $stdout.flush
end

module Shared
  def shared(depth)
    # enough instructions that the index of lines has more than its first words
    sum = 0
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    [sum].each do |one|
      shared(depth - 1) unless depth.zero?
    end
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    sum += 1; sum += 2; sum += 3; sum += 4; sum += 5; sum += 6; sum += 7; sum += 8
    [sum].each do |one|
      last(one) if depth.zero?
    end
  end
end

module Outer
  class Inner
    include Shared

    def last(one)
      one.to_s =~ /(.)/ # from here on its frame has variables of its own
      self.class.build { finish($1) }
    end

    def finish(_one)
      begin
        raise "to be rescued"
      rescue RuntimeError
        told; Process.kill(:STOP, Process.pid); sleep
      end
    end

    def self.build
      yield
    end
  end
end

nameless = Class.new do
  def called(inner)
    inner.shared(1)
  end
end

Fiber.new { nameless.new.called(Outer::Inner.new) }.resume if ARGV[0] == "fiber"
Thread.new { nameless.new.called(Outer::Inner.new) }.join if ARGV[0] == "thread"
nameless.new.called(Outer::Inner.new)

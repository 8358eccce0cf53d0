# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require_relative "tally"

module Memprof
  # What a process does at the borders of its libraries, from `open` to `close`; both may be called
  # more than once. Any number of spans may go on at the same time.
  class Meter
    KINDS = %w[none object class module float string regexp array hash struct bignum file data match
               complex rational _16 nil true false symbol fixnum undef _23 _24 _25 imemo node iclass
               zombie moved _31].freeze # RUBY_T_..., as memprof named them
    # struct rusage: two times of two words, then fourteen words
    USAGE = { "signals" => 15, "inputs" => 11, "outputs" => 12, "minor_faults" => 8,
              "major_faults" => 9, "voluntary_switches" => 16, "involuntary_switches" => 17 }.freeze
    USAGE_SIZE = 144
    NOT_BY_TYPE = "types are told under `soscope mem run -- ruby ...` alone"

    QUIET = Mutex.new # held by the thread whose objects are not the program's

    private_constant :KINDS, :USAGE, :USAGE_SIZE, :NOT_BY_TYPE, :QUIET

    # What all counters say at one moment.
    Moment = Struct.new(:look, :ns, :made, :total, :collections, :gc_time, :usage)
    private_constant :Moment

    # From `Meter#begin` to `end`.
    class Span
      def initialize(meter)
        @meter = meter
        Meter.quietly do
          @first, @last = meter.moments
          meter.read(@first)
          @first.look&.take
          @first.total = GC.stat(:total_allocated_objects) # last: here nothing makes an object
        end
      end

      # Return the groups of what has happened, as a Hash; times are in seconds.
      def end
        @last.total = GC.stat(:total_allocated_objects)
        Meter.quietly do
          @last.look&.take
          @meter.read(@last)
          @meter.between(@first, @last)
        end
      end
    end

    def initialize
      @lock = Mutex.new
      @users = 0
      @unseen = {}
      @usage = Fiddle::Function.new(Fiddle.dlopen(nil)["getrusage"],
                                    [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)
      @tally = Tally.new
    rescue Unsupported, Fiddle::DLError => error
      @unseen["all"] = error.message
    end

    # The process's Meter; there is one, which the first call makes.
    def self.shared
      @shared ||= quietly { new }
    end

    # Return what the block returns, and the groups of what it has done; nil in a forked child.
    def self.around
      pid = Process.pid
      shared.open
      begin
        span = shared.begin
        result = yield
        groups = span.end if Process.pid == pid
      ensure
        shared.close if Process.pid == pid
      end
      [result, groups]
    end

    # Have nothing counted that the block makes. Of its objects, many are made by code of Ruby's own.
    def self.quietly
      return yield if QUIET.owned? || !Memprof.const_defined?(:Agent, false)

      QUIET.synchronize do
        Agent.hide(1)
        yield
      ensure
        Agent.hide(0)
      end
    end

    # Begin to count.
    def open
      exclusively do
        was_forked = @pid && @pid != Process.pid
        @users = 0 if was_forked
        @pid = Process.pid
        @users += 1
        next if @users > 1

        @is_profiled = !GC.respond_to?(:total_time) && !GC::Profiler.enabled?
        GC::Profiler.enable if @is_profiled
        hook
      end
    end

    # Leave the slots hooked for good: to hook them for each of many spans costs more.
    def stay
      @lock.synchronize { @stays = true }
    end

    # Count no more, and give everything back.
    def close
      exclusively do
        @users -= 1
        next if @users.positive?

        @tally&.close unless @stays
        next unless @is_profiled

        GC::Profiler.disable
        GC::Profiler.clear # it keeps a row of each collection
      end
    end

    # Return a Span that begins now.
    def begin
      Span.new(self)
    end

    # @private
    def moments
      Array.new(2) { Moment.new(@tally&.look) }
    end

    # @private
    def read(moment)
      moment.usage = usage
      moment.collections = GC.count
      moment.gc_time = GC.respond_to?(:total_time) ? GC.total_time / 1e9 : GC::Profiler.total_time
      moment.made = Agent.made if Memprof.const_defined?(:Agent, false)
      moment.ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    end

    # @private
    def between(first, last)
      @tally&.refresh
      groups = { "time" => (last.ns - first.ns) / 1e9 }
      groups["objects"] = objects(first, last)
      groups["gc"] = { "calls" => last.collections - first.collections,
                       "time" => last.gc_time - first.gc_time }
      groups.update("memory" => {}, "fd" => {})
      groups.update(@tally.between(first.look, last.look)) if @tally
      groups["resources"] = last.usage.to_h do |name, new|
        [name, (new - first.usage[name]).round(6)]
      end
      unseen = @tally ? @tally.unseen : {}
      @unseen.each { |group, why| (unseen[group] ||= {})[why] = {} }
      (unseen["objects"] ||= {})[NOT_BY_TYPE] = {} unless groups["objects"].key?("types")
      groups["unseen"] = unseen unless unseen.empty?
      groups
    end

    private

    def exclusively(&block)
      @lock.synchronize { Meter.quietly(&block) }
    end

    def hook
      @tally&.open
    rescue Unsupported => error
      @tally = nil
      @unseen["all"] = error.message
    end

    def objects(first, last)
      unless first.made.is_a?(Array) && last.made.is_a?(Array)
        return { "created" => last.total - first.total }
      end

      counts = KINDS.zip(last.made.zip(first.made).map { |new, old| new - old })
      types = counts.select { |_, count| count.positive? }.sort_by { |name, count| [-count, name] }
      { "created" => types.sum { |_, count| count }, "types" => types.to_h }
    end

    def usage
      room = "\0" * USAGE_SIZE
      @usage.call(0, room)
      words = room.unpack("q<*")
      { "utime" => words[0] + words[1] / 1e6, "stime" => words[2] + words[3] / 1e6,
        **USAGE.transform_values { |at| words[at] } }
    end
  end

  [__FILE__, File.expand_path("tally.rb", __dir__)].each do |file|
    Agent.ours(file) if const_defined?(:Agent, false)
  end
end

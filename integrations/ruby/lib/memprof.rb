# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require_relative "memprof/ownfile"

# Which objects a part of a program makes and leaves alive, by file, line and class.
#
#   require "memprof"
#   Memprof.start
#   ...
#   Memprof.stats     # "%7d %s:%d:%s" % [count, file, line, type], most first
#   Memprof.stop
#
# The objects are counted by soscope's agent, which is in programs that run under
# `soscope mem run -- ruby ...`. Elsewhere this file loads, and `start` raises Unsupported.
module Memprof
  # Objects cannot be counted in this process; the message says why.
  class Unsupported < StandardError; end

  VERSION = "0.1.0"

  # Why the agent refuses, by its number.
  REFUSALS = {
    1 => "this Ruby lacks a function that is needed",
    5 => "there is no memory for the tables",
    7 => "objects made for a test were not counted right",
    9 => "Ractors are not told of each other's objects",
    100 => "this process is not counted any more"
  }.freeze

  STOPPED = "object tracking disabled, call Memprof.start first"
  TRIES = 3
  ASIDE = File::WRONLY | File::CREAT | File::EXCL | File::BINARY

  private_constant :REFUSALS, :STOPPED, :TRIES, :ASIDE

  OTHER = "the agent in this process is of another version of soscope than this library is"
  private_constant :OTHER

  begin
    require_relative "memprof/tables"
    require "soscope_memprof" # is in $LOAD_PATH where soscope counts
    if const_defined?(:Agent, false)
      Agent.ours(__FILE__)
      Agent.ours(File.expand_path("memprof/ownfile.rb", __dir__))
      Agent.ours(File.expand_path("memprof/tables.rb", __dir__))
      @is_other = !Agent.respond_to?(:tables) || Agent.tables != Tables::FINGERPRINT
      remove_const(:Agent) if @is_other # nothing else is asked of it
    end
  rescue LoadError
    # `start` says so
  end

  @is_started = false
  @spans = {}.compare_by_identity # open ones of `track` and `dump`, and their threads
  @is_of_spans = false # the first of them has started, and the last one stops
  @lock = Mutex.new # of spans

  class << self
    # Count what is made from now on. Return true, or false if it is counted already.
    #
    # Raises Unsupported.
    def start
      return false if @is_started

      check(agent.start)
      @is_of_spans = false
      @is_started = true
    end

    # Count no more, and forget what was counted. Return true, or false if nothing was.
    def stop
      return false unless @is_started

      agent.stop
      @is_started = false
      true
    end

    # Print what was made since `start` and is alive: a line for each file, line and type.
    #
    # `path` is the file to write, which is replaced; nil: $stdout. Raises RuntimeError before
    # `start`, ArgumentError where the file cannot be written, Unsupported.
    def stats(path = nil)
      raise STOPPED unless @is_started

      lines = check(agent.stats)
      write(lines, path)
      warn("memprof: #{agent.lost} objects are in no line: no room") if agent.lost.positive?
    end

    # As `stats`; then forget what was counted, and count on.
    def stats!(path = nil)
      stats(path)
      check(agent.start)
      nil
    end

    # Print what the block makes and leaves alive, as `stats` does.
    #
    # Beside or inside of another one, or behind `start`: what was made since the beginning. That
    # goes on until the last block has ended, or behind `start` until `stop`.
    def track(path = nil)
      raise ArgumentError, "block required" unless block_given?

      span do
        yield
        stats(path)
      end
    end

    # Write what was made since `start` and is alive: an object a line, in JSON.
    #
    # It has what ObjectSpace.dump says of it, with `file`, `line` and `class_name`. `path` is as
    # in `stats`. With a block, as `track`: what that makes and leaves alive; return what it returns.
    # Raises as `stats`.
    def dump(path = nil)
      return dump_objects(path, all: false) unless block_given?

      span do
        result = yield
        dump_objects(path, all: false)
        result
      end
    end

    # Write all objects that are alive, and what refers to them from outside of the heap, as `dump`
    # does; `start` is not needed. Raises ArgumentError, Unsupported.
    def dump_all(path = nil)
      dump_objects(path, all: true)
    end

    # Write what the block does at the borders of libraries: a line, which is a JSON object.
    #
    # It has `time`, and the groups `objects`, `gc`, `memory`, `fd`, `resources`, and `postgres`,
    # `mysql`, `memcache`, `redis`, `sqlite3` and `ssl` where there was any such call. `path` is as
    # in `stats`. Return what the block returns. After an exception nothing is written.
    # Raises ArgumentError.
    def trace(path = nil, &block)
      raise ArgumentError, "block required" unless block

      require "json"
      require_relative "memprof/trace"
      result, groups = Meter.around(&block)
      write("#{JSON.generate(groups)}\n", path) if groups
      result
    end

    private

    # Objects are counted while the block runs, and not behind the last such block.
    def span
      own = Object.new
      exclusively do
        @is_of_spans = true if start
        @spans[own] = Thread.current
      end
      begin
        yield
      ensure
        exclusively do
          @spans.delete(own)
          @spans.select! { |_, thread| thread.alive? } # a forked child has no other threads
          stop if @is_of_spans && @spans.empty?
        end
      end
    end

    # Let no other thread in between.
    def exclusively
      locked = false
      begin
        @lock.lock
        locked = true
      rescue ThreadError
        nil # a signal handler must not wait: nothing runs beside it that it could wait for
      end
      yield
    ensure
      @lock.unlock if locked
    end

    def dump_objects(path, all:)
      raise STOPPED unless all || @is_started

      places, text = heap(all)
      aside(path) { |output| convert(places, text, output, all) }
      text.clear
      nil
    end

    # Where objects were made, and what ObjectSpace says of all that there are, in the same order.
    def heap(all)
      agent.hide(1)
      require "objspace" unless ObjectSpace.respond_to?(:dump_all) # a signal handler cannot
      was_off = GC.disable
      TRIES.times do
        count = GC.count
        places = check(agent.places(all ? 1 : 0))
        text = ObjectSpace.dump_all(output: :string).force_encoding(Encoding::BINARY)
        # the program may collect although that is disabled: then addresses are no good
        return places, text if GC.count == count
      end
      raise Unsupported, "the program collects its objects again and again"
    ensure
      GC.enable if was_off == false
      agent.hide(0)
    end

    # Yield what is to become the file, which is there when it is whole.
    def aside(path)
      return yield($stdout) unless path

      unfinished = "#{path}.IN_PROGRESS"
      writing do
        File.unlink(unfinished) if File.symlink?(unfinished) || File.exist?(unfinished)
        File.open(unfinished, ASIDE, 0o600) { |file| yield file }
        File.rename(unfinished, path)
      end
    end

    def convert(places, text, output, all)
      files = Hash.new { |known, origin| known[origin] = place_text(origin) }
      names = Hash.new { |known, type| known[type] = %("class_name":#{json(agent.name(type))}) }
      at = row = missing = 0
      while row < places.size
        address, origin, type = places[row], places[row + 1], places[row + 2]
        row += 3
        head = %({"address":"0x#{address.to_s(16)}", )
        start = text.index(head, at)
        unless start
          missing += 1
          next
        end
        line = text.byteslice(start + head.size...text.index("\n", start) + 1)
        output.write(text.byteslice(at...start)) if all
        output.write(head, place(line, files[origin]), names[type], ", ", line)
        at = start + head.size + line.size
      end
      output.write(text.byteslice(at..-1)) if all
      warn("memprof: ObjectSpace has not told of #{missing} objects") if missing.positive?
    end

    # The program may have had ObjectSpace say where it was made.
    def place(line, text)
      line.include?('"file":"') ? "" : "#{text}, "
    end

    def place_text(origin)
      %("file":#{json(agent.file(origin))}, "line":#{agent.line(origin)})
    end

    def json(text)
      %("#{text.scrub.gsub(/["\\\x00-\x1f]/) { |char| format("\\u%04x", char.ord) }}")
    end

    def agent
      return Agent if defined?(Agent)
      raise Unsupported, "objects are not counted: #{OTHER}" if @is_other

      raise Unsupported, "soscope does not count the objects of this process by line: " \
                         "run it under `soscope mem run -- ruby ...`"
    end

    def check(answer)
      return answer unless answer.is_a?(Integer) && answer.positive?

      raise Unsupported, "objects are not counted: #{REFUSALS.fetch(answer, "refusal #{answer}")}"
    end

    def write(lines, path)
      if path
        writing do
          OwnFile.open(path) do |file|
            file.truncate(0) if file.stat.file?
            file.write(lines)
          end
        end
      else
        $stdout.write(lines)
      end
      nil
    end

    def writing
      yield
    rescue SystemCallError => error
      raise ArgumentError, "unable to open output file: #{error.message}"
    end
  end
end

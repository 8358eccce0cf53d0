# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require "fiddle"
require_relative "tables"

module Memprof
  # Calls that leave the program's libraries, by what they are for: the agent counts them. It is loaded
  # as a library, leads the slots of all images to functions of its own while anybody is interested,
  # and gives them back afterwards. Its counters go on.
  class Tally
    OPEN = 1
    LOOK = 2
    CLOSE = 3
    FUNCTIONS = 256
    GROUPS = [nil, *%w[fd memory postgres mysql memcache redis sqlite3 ssl]].freeze
    ASKS_STATEMENT = [5, 6, 7].freeze # by text, by step, by name
    NO_BYTES = [0, *ASKS_STATEMENT].freeze
    QUERY = 1
    ANSWERS = 12
    TYPES = %w[select insert update delete prepared other].freeze
    RESPONSES = ["success", "notfound", "notstored", "exists", nil, "failed"].freeze
    WHYS = [nil, "its address is taken", "leads to code of no library", "cannot be written",
            "no room", "not bound, by stubs that are not known", "was being loaded",
            "written by somebody else meanwhile"].freeze
    SQLITES = "more than one SQLite library: queries are not told from steps"
    # libraries of soscope's and of a gem lie at different places
    LIBRARIES = ["../../libsoscope-agent.so", "../libsoscope-agent.so"].freeze
    INSIDE_HEAD = 24 # bytes of an agent that soscope has put in: up to its tables
    PR_GET_TSC = 25
    TSC_FORBIDDEN = 2

    private_constant(*constants(false))

    Rule = Struct.new(:name, :operation, :group, :requested, :actual, :flags)
    # All counters at one moment: `take` reads them, and does nothing else.
    Look = Struct.new(:function, :request, :counts, :wires, :ns) do
      def take
        function.call(request)
        self.ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      end

      def ticks
        Tally.answer(request)[:ticks]
      end
    end
    private_constant :Rule, :Look

    # What a request says.
    def self.answer(request)
      Tables::TALLY_FIELDS.zip(request[0, Tables::TALLY_SIZE].unpack(Tables::TALLY_FORMAT)).to_h
    end

    # Raises Unsupported.
    def initialize
      @library = load_library
      @function = Fiddle::Function.new(@library["soscope_agent_tally"], [Fiddle::TYPE_VOIDP],
                                       Fiddle::TYPE_LONG)
      process = Fiddle.dlopen(nil)
      @images = process.to_i
      @iterate = process["dl_iterate_phdr"]
      @usable = address(process, "malloc_usable_size")
      @resident = 0
      @is_timed = !clock_forbidden?(process)
      @start = look
      @start.take
      ask(LOOK)
    rescue Fiddle::DLError => error
      raise Unsupported, "calls cannot be counted: #{error.message}"
    end

    # Count from now on.
    def open
      @resident = resident
      ask(OPEN)
    end

    # Have images counted that have come since.
    def refresh
      ask(OPEN)
    end

    # Give all slots back.
    def close
      ask(CLOSE)
    end

    # Return what takes a look; nothing is read yet.
    def look
      counts = memory(Tables::COUNT_SIZE * FUNCTIONS)
      wires = memory(Tables::WIRE_SIZE * GROUPS.size)
      Look.new(@function, request(LOOK, counts.to_i, wires.to_i), counts, wires, 0)
    end

    # Return the groups of what happened between two looks.
    def between(first, last)
      groups = {}
      passed = last.ticks - @start.ticks
      rate = passed.positive? ? (last.ns - @start.ns) / 1e9 / passed : 0.0
      differences(first.counts, last.counts, Tables::COUNT_SIZE) do |at, numbers|
        rule = @rules[at]
        add(groups[rule.group] ||= {}, rule, numbers, rate) if rule&.group
      end
      differences(first.wires, last.wires, Tables::WIRE_SIZE) do |at, numbers|
        (groups[GROUPS[at]] ||= {})["wire"] = wire(numbers, rate)
      end
      groups
    end

    # Return what is not counted: by group, reason and library, the functions.
    def unseen
      found = {}
      @answer[:left_count].times do |at|
        number, why, path = read(@answer[:lefts] + at * Tables::LEFT_SIZE, Tables::LEFT_SIZE).unpack(Tables::LEFT_FORMAT)
        rule = @rules[number]
        image = File.basename(path.delete("\0").then { |name| name.empty? ? "ruby" : name })
        functions = ((found[rule.group || "all"] ||= {})[WHYS[why]] ||= {})[image] ||= []
        functions << rule.name if rule.group && !functions.include?(rule.name)
      end
      more = @answer[:left_more]
      (found["all"] ||= {})["#{more} more slots"] = {} if more.positive?
      (found["sqlite3"] ||= {})[SQLITES] = {} if @answer[:sqlites] > 1
      (found["all"] ||= {})["no times: the program has forbidden rdtsc"] = {} unless @is_timed
      found
    end

    private

    def load_library
      paths = LIBRARIES.map { |path| File.expand_path(path, __dir__) }
      path = paths.find { |each| File.exist?(each) }
      raise Unsupported, "there is no agent beside this library: install soscope" unless path

      Fiddle.dlopen(path)
    end

    def address(process, name)
      process[name]
    rescue Fiddle::DLError
      0
    end

    def clock_forbidden?(process)
      answer = memory(4)
      prctl = Fiddle::Function.new(process["prctl"],
                                   [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, *[Fiddle::TYPE_LONG] * 3],
                                   Fiddle::TYPE_INT)
      prctl.call(PR_GET_TSC, answer, 0, 0, 0).zero? && answer[0, 4].unpack1("l<") == TSC_FORBIDDEN
    end

    def memory(size)
      Fiddle::Pointer.malloc(size, Fiddle::RUBY_FREE)
    end

    def read(address, size)
      Fiddle::Pointer.new(address)[0, size]
    end

    def request(order, counts = 0, wires = 0)
      said = { size: Tables::TALLY_SIZE, order: order, tables: Tables::FINGERPRINT, images: @images,
               iterate: @iterate, usable: @usable, resident: @resident, counts: counts, wires: wires,
               count_room: counts.zero? ? 0 : FUNCTIONS, flags: @is_timed ? 0 : 1 }
      words = Tables::TALLY_FIELDS.map { |name| said.fetch(name, 0) }
      made = memory(Tables::TALLY_SIZE)
      made[0, Tables::TALLY_SIZE] = words.pack(Tables::TALLY_FORMAT)
      made
    end

    def ask(order)
      made = request(order)
      raise Unsupported, "calls cannot be counted: #{OTHER}" unless @function.call(made).zero?

      @answer = Tally.answer(made)
      @rules ||= Array.new(@answer[:function_count]) { |at| rule(at) }
    end

    def rule(at)
      data = read(@answer[:functions] + at * Tables::FUNCTION_SIZE, Tables::FUNCTION_SIZE)
      said = Tables::FUNCTION_FIELDS.zip(data.unpack(Tables::FUNCTION_FORMAT)).to_h
      Rule.new(said[:name].delete("\0"), said[:operation].delete("\0"), GROUPS[said[:group]],
               said[:requested], said[:actual], said[:flags])
    end

    def differences(first, last, size)
      before = first[0, first.size].unpack("Q<*")
      after = last[0, last.size].unpack("Q<*")
      before.each_slice(size / 8).zip(after.each_slice(size / 8)).each_with_index do |(old, new), at|
        yield at, new.zip(old).map { |pair| pair[0] - pair[1] } if old != new
      end
    end

    def add(group, rule, numbers, rate)
      calls, ticks, requested, actual, *kinds = numbers
      count_queries(group, rule, calls, kinds)
      seconds = ticks * rate
      if @is_timed && !%w[fd memory memcache].include?(rule.group)
        group["time"] = group.fetch("time", 0.0) + seconds
      end
      operation = group[rule.operation] ||= {}
      sum(operation, "calls", calls)
      sum(operation, "time", seconds) if @is_timed && rule.group != "memory"
      sum(operation, "requested_bytes", requested) unless NO_BYTES.include?(rule.requested)
      sum(operation, "actual_bytes", actual) unless rule.actual.zero?
      sum(operation, "unsized", kinds[0]) if rule.group == "memory" && kinds[0].positive?
      sort(operation["responses"] ||= {}, RESPONSES, kinds) if (rule.flags & ANSWERS).positive?
    end

    def count_queries(group, rule, calls, kinds)
      is_told = ASKS_STATEMENT.include?(rule.requested)
      return unless is_told || (rule.flags & QUERY).positive?

      sum(group, "queries", is_told ? kinds.sum : calls)
      sort(group["types"] ||= {}, TYPES, kinds) if is_told && kinds.sum.positive?
    end

    def sum(into, name, number)
      into[name] = into.fetch(name, 0) + number
    end

    def sort(into, names, kinds)
      names.zip(kinds) { |name, number| sum(into, name, number) if number.positive? }
    end

    def wire(numbers, rate)
      names = %w[connects sends sent_bytes receives received_bytes round_trips]
      told = names.zip(numbers).to_h
      told["time"] = numbers[6] * rate if @is_timed
      told
    end

    # Where an agent begins that soscope has put into this process, 0 without one.
    def resident
      File.readlines("/proc/self/maps").each do |line|
        span, flags, place = line.split(" ", 4)
        next unless flags[2] == "x" && place.hex.zero?

        start = span.hex
        magic, _, _, tables = inside(start + Tables::INSIDE_AT).unpack("Q<L<2Q<")
        next unless magic == Tables::INSIDE_MAGIC
        return start if tables == Tables::FINGERPRINT

        raise Unsupported, "calls cannot be counted: #{OTHER}"
      end
      0
    end

    # Memory that another thread may give back at any moment; "" where there is none.
    def inside(address)
      File.open("/proc/self/mem", "rb") { |memory| memory.pread(INSIDE_HEAD, address) }
    rescue SystemCallError, EOFError, RangeError
      ""
    end
  end
  private_constant :Tally
end

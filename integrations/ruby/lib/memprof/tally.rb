# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require "fiddle"

module Memprof
  # Calls that leave the program's libraries, by what they are for: the agent counts them. It is loaded
  # as a library, leads the slots of all images to functions of its own while anybody is interested,
  # and gives them back afterwards. Its counters go on.
  class Tally
    OPEN = 1
    LOOK = 2
    CLOSE = 3
    # struct sosc_tally and others, as soscope/tally.h has them
    QUESTION = "L<2Q<6L<2Q<L<2Q<L<2Q<2L<2"
    QUESTION_SIZE = 120
    FUNCTION = "a32a24C8S<"
    FUNCTION_SIZE = 72
    LEFT = "L<2a120"
    LEFT_SIZE = 128
    COUNT_WORDS = 16
    WIRE_WORDS = 8
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
    # an agent that soscope has put in: struct sosc_inside
    INSIDE_AT = 17_039_360
    INSIDE_MAGIC = 3_560_500_604_125_278_067
    WIRE_VERSION = 1
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
        request[0, QUESTION_SIZE].unpack(QUESTION)[16]
      end
    end
    private_constant :Rule, :Look

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
      learn(@start.request)
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
      counts = memory(COUNT_WORDS * 8 * FUNCTIONS)
      wires = memory(WIRE_WORDS * 8 * GROUPS.size)
      Look.new(@function, request(LOOK, counts.to_i, wires.to_i), counts, wires, 0)
    end

    # Return the groups of what happened between two looks.
    def between(first, last)
      groups = {}
      passed = last.ticks - @start.ticks
      rate = passed.positive? ? (last.ns - @start.ns) / 1e9 / passed : 0.0
      differences(first.counts, last.counts, COUNT_WORDS) do |at, numbers|
        rule = @rules[at]
        add(groups[rule.group] ||= {}, rule, numbers, rate) if rule&.group
      end
      differences(first.wires, last.wires, WIRE_WORDS) do |at, numbers|
        (groups[GROUPS[at]] ||= {})["wire"] = wire(numbers, rate)
      end
      groups
    end

    # Return what is not counted: by group, reason and library, the functions.
    def unseen
      found = {}
      @answer[:left_count].times do |at|
        number, why, path = read(@answer[:lefts] + at * LEFT_SIZE, LEFT_SIZE).unpack(LEFT)
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
      words = [QUESTION_SIZE, order, @images, @iterate, @usable, @resident, counts, wires,
               counts.zero? ? 0 : FUNCTIONS, @is_timed ? 0 : 1, *[0] * 10]
      made = memory(QUESTION_SIZE)
      made[0, QUESTION_SIZE] = words.pack(QUESTION)
      made
    end

    def ask(order)
      made = request(order)
      answer = @function.call(made)
      raise Unsupported, "the agent is of another version of soscope" unless answer.zero?

      learn(made)
    end

    def learn(made)
      names = %i[functions function_count slots lefts left_count left_more ticks found sqlites]
      @answer = names.zip(made[0, QUESTION_SIZE].unpack(QUESTION)[10..]).to_h
      @rules ||= Array.new(@answer[:function_count]) do |at|
        fields = read(@answer[:functions] + at * FUNCTION_SIZE, FUNCTION_SIZE).unpack(FUNCTION)
        Rule.new(fields[0].delete("\0"), fields[1].delete("\0"), GROUPS[fields[2]], fields[3],
                 fields[6], fields[10])
      end
    end

    def differences(first, last, words)
      before = first[0, first.size].unpack("Q<*")
      after = last[0, last.size].unpack("Q<*")
      before.each_slice(words).zip(after.each_slice(words)).each_with_index do |(old, new), at|
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
      ranges = File.readlines("/proc/self/maps").map do |line|
        span, flags, place = line.split
        [*span.split("-").map(&:hex), flags, place.hex]
      end
      found = ranges.find do |start, _, flags, place|
        at = start + INSIDE_AT
        next unless flags[2] == "x" && place.zero? &&
                    ranges.any? { |from, to, how| from <= at && at + 16 <= to && how[0] == "r" }

        read(at, 12).unpack("Q<L<") == [INSIDE_MAGIC, WIRE_VERSION]
      end
      found ? found[0] : 0
    end
  end
  private_constant :Tally
end

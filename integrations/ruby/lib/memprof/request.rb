# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require "memprof"

begin
  require_relative "trace"
rescue LoadError
  # a Ruby without Fiddle: the lines say so
end

module Memprof
  # One request of a web application, from its making to `finish`.
  #
  # All that is counted is the process's. `overlapped` says how many other requests there were
  # meanwhile; objects that are alive were made since the first of them began.
  class Request
    ROWS = 20
    ROW = /\A *(\d+) (.*):(\d+):(.*)\n\z/m.freeze
    VARIABLES = %w[REQUEST_URI REQUEST_METHOD PATH_INFO REMOTE_ADDR QUERY_STRING].freeze
    PARAMETERS = %w[action_dispatch action_controller].map { |part| "#{part}.request.path_parameters" }
                                                      .freeze
    NO_CALLS = { "unseen" => { "all" => { "Ruby has no Fiddle" => {} } } }.freeze
    private_constant :ROWS, :ROW, :VARIABLES, :PARAMETERS, :NO_CALLS

    @mutex = Mutex.new
    @under_way = []

    class << self
      attr_reader :mutex, :under_way

      # Whether objects can be counted here; else it has been said why not.
      def possible?
        begun = Memprof.start
        true
      rescue Unsupported => error
        warn("memprof: requests are not looked at: #{error.message}") unless @is_warned
        @is_warned = true
        false
      ensure
        Memprof.stop if begun
      end

      # The line of one request. `groups` are what was counted, by name.
      def line(about, groups)
        "#{json(about.merge("tracers" => groups))}\n"
      end

      private

      def json(value)
        case value
        when Hash then "{#{value.map { |name, each| "#{json(name.to_s)}:#{json(each)}" }.join(",")}}"
        when Array then "[#{value.map { |each| json(each) }.join(",")}]"
        when String then quoted(value)
        when nil then "null"
        else value.to_s
        end
      end

      def quoted(text)
        whole = text.dup.force_encoding(Encoding::UTF_8).scrub
        %("#{whole.gsub(/["\\\x00-\x1f]/) { |char| format("\\u%04x", char.ord) }}")
      end
    end

    attr_accessor :overlapped
    attr_reader :env
    attr_writer :status

    # `traced`: whether the line of JSON is wanted. Raises Unsupported.
    def initialize(env, traced: true)
      @env = env
      @overlapped = 0
      @pid = Process.pid
      @meter = Meter.shared if traced && Memprof.const_defined?(:Meter, false)
      self.class.mutex.synchronize { enter(self.class.under_way) }
      @start = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
      @was = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      @span = @meter&.begin
    end

    # End it. Return the lines of `stats` and the line of JSON; nil in a forked child.
    def finish(force_gc: false, error: nil)
      return if Process.pid != @pid

      groups = @span ? @span.end : NO_CALLS.dup
      time = Process.clock_gettime(Process::CLOCK_MONOTONIC) - @was
      GC.start if force_gc
      lines = self.class.mutex.synchronize { leave(self.class.under_way) }
      [lines.to_s, self.class.line(about(time, error), with_objects(groups, lines))]
    end

    private

    def enter(others)
      if @@pid != Process.pid # a child has no requests but its own
        others.clear
        @@has_hooks = false
        @@pid = Process.pid
      end
      Memprof.send(:begin_anew) if others.empty?
      hook if @meter
      # another middleware's of the same request is no other request
      strangers = others.reject { |other| other.env.equal?(@env) }
      @overlapped = strangers.size
      strangers.each { |other| other.overlapped += 1 }
      others << self
    end
    @@pid = Process.pid
    @@has_hooks = false

    def hook
      @meter.stay unless @@has_hooks
      @@has_hooks = true
      @meter.open
    end

    def leave(others)
      others.delete(self)
      @meter&.close
      lines = Memprof.send(:lines)
      Memprof.send(:end_anew) if others.empty?
      lines
    rescue Unsupported, RuntimeError
      nil
    end

    def about(time, error)
      said = { "start" => @start, "time" => time.round(9), "overlapped" => @overlapped,
               "counted" => "process" }
      rails = parameters
      said["rails"] = rails if rails
      said["request"] = VARIABLES.to_h { |name| [name, @env[name]&.to_s] }
      said["response"] = { "status" => @status }
      said["exception"] = error.class.name if error
      said
    end

    def parameters
      found = PARAMETERS.map { |key| @env[key] }.compact.first or return
      %w[controller action].to_h { |name| [name, (found[name] || found[name.to_sym])&.to_s] }
    end

    def with_objects(groups, lines)
      made = groups.delete("objects") || {}
      alive = lines ? objects(lines) : { "error" => "objects are not counted any more" }
      groups.delete("time")
      { "objects" => made.merge(alive), **groups }
    end

    def objects(lines)
      rows = lines.each_line.map { |line| ROW.match(line) }.compact
      {
        "alive" => rows.sum { |row| row[1].to_i },
        "rows" => rows.first(ROWS).map do |row|
          { "count" => row[1].to_i, "file" => row[2], "line" => row[3].to_i, "type" => row[4] }
        end,
        "rows_left_out" => [rows.size - ROWS, 0].max
      }
    end
  end
  private_constant :Request

  # What the application answers. The request ends when the server closes it.
  class Body
    def initialize(body, &finish)
      @body = body
      @finish = finish
    end

    def respond_to_missing?(name, private = false)
      name != :to_str && @body.respond_to?(name, private)
    end

    def close
      @body.close if @body.respond_to?(:close)
    ensure
      finish, @finish = @finish, nil
      finish&.call
    end

    # Whoever asks for the array does not close the body.
    def method_missing(name, *words, &block)
      return super if name == :to_str
      return @body.__send__(name, *words, &block) unless name == :to_ary

      begin
        @body.to_ary
      ensure
        close
      end
    end
  end
  private_constant :Body

  class << self
    # The file to which `trace_request` adds lines; nil: $stdout.
    attr_accessor :trace_filename unless method_defined?(:trace_filename)

    # Write what a Rack request costs and leaves alive, in a line of JSON. Return what the block
    # does, which answers the request. Raises Unsupported.
    def trace_request(env)
      request = Request.new(env)
      begin
        answer = yield
        request.status = answer[0] if answer.is_a?(Array) && answer[0].is_a?(Integer)
        answer
      ensure
        _, line = request.finish(error: $!)
        add_line(line, trace_filename) if line
      end
    end

    private

    # Have a request answered whose body may come later; yield what `finish` says at its end.
    def measure(env, app, force_gc: false, traced: true)
      request = Request.new(env, traced: traced)
      finish = lambda do |error|
        said = request.finish(force_gc: force_gc, error: error)
        yield(*said) if said
      end
      begin
        status, headers, body = app.call(env)
        request.status = status.to_i
        [status, headers, Body.new(body) { finish.call(nil) }]
      rescue Exception => error # it goes on its way
        finish.call(error)
        raise
      end
    end

    def add_line(line, path)
      return $stdout.write(line) unless path

      OwnFile.open(path) { |file| file.syswrite(line) }
    rescue SystemCallError => error
      warn("memprof: #{error.message}") # the request is none the worse for it
    end

    # Count what is made from now on; a program that counts by itself goes on with that.
    def begin_anew
      @is_anew = start
      check(agent.start) unless @is_anew
    end

    def end_anew
      stop if @is_anew
    end

    def lines
      raise STOPPED unless @is_started

      check(agent.stats)
    end
  end

  Agent.ours(__FILE__) if const_defined?(:Agent, false)
end

# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require "memprof/request"

module Memprof
  # A Rack middleware: a line of JSON for each request, in Memprof.trace_filename, or in
  # /tmp/memprof_tracer-PID.json.
  #
  #   require "memprof/tracer"
  #   config.middleware.insert(0, Memprof::Tracer)
  #
  # `force_gc`: garbage is collected before. Where objects are not counted, requests pass.
  class Tracer
    def self.filename
      Memprof.trace_filename || "/tmp/memprof_tracer-#{Process.pid}.json"
    end

    def initialize(app, options = {})
      @app = app
      @force_gc = options[:force_gc] ? true : false
      @is_possible = Request.possible?
    end

    def call(env)
      return @app.call(env) unless @is_possible

      Memprof.send(:measure, env, @app, force_gc: @force_gc) do |_, line|
        Memprof.send(:add_line, line, Tracer.filename)
      end
    end
  end

  # The same for the actions of some controllers of Rails alone.
  #
  #   class ApplicationController < ActionController::Base
  #     around_action Memprof::Filter
  #   end
  module Filter
    # An action, by the name that callbacks of Rails have had since version 3.
    def self.around(controller, &action)
      filter(controller, &action)
    end

    # An action of Rails 2.
    def self.filter(controller)
      return yield unless Request.possible?

      request = controller.request
      env = request.env.merge("action_controller.request.path_parameters" => request.path_parameters)
      answer = lambda do |_|
        yield
        [controller.response.status, {}, []]
      end
      _, _, body = Memprof.send(:measure, env, answer) do |_, line|
        Memprof.send(:add_line, line, Tracer.filename)
      end
      body.close
    end
  end

  Agent.ours(__FILE__) if const_defined?(:Agent, false)
end

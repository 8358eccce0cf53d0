# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require "memprof/request"

module Memprof
  # A Rack middleware: prints what each request has made and left alive, as `Memprof.track` does.
  #
  #   require "memprof/middleware"
  #   use Memprof::Middleware, force_gc: true
  #
  # `force_gc`: garbage is collected before. Where objects are not counted, requests pass.
  class Middleware
    LINE = "#{"-" * 80}\n"
    private_constant :LINE

    def initialize(app, options = {})
      @app = app
      @force_gc = options[:force_gc] ? true : false
      @is_possible = Request.possible?
    end

    def call(env)
      return @app.call(env) unless @is_possible

      Memprof.send(:measure, env, @app, force_gc: @force_gc, traced: false) do |lines, _|
        $stdout.write("\n", LINE, LINE, lines)
      end
    end
  end

  Agent.ours(__FILE__) if const_defined?(:Agent, false)
end

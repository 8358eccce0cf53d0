# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# `ruby served.rb WAY FOLDER`: what Rack's and Rails' requests leave, and dumps by a signal.

way, folder = ARGV
class Kept; end
$kept = []
PID = Process.pid

App = lambda do |env|
  case env["PATH_INFO"]
  when "/leaks"
    $kept.concat(Array.new(100) { Kept.new }) # leaked
    [200, {}, ["hello"]]
  when "/garbage"
    100.times { Kept.new }
    [200, {}, ["hello"]]
  when "/calls"
    File.open("/dev/null", "w") { |null| 7.times { null.syswrite("abc") } }
    [200, {}, []]
  when "/forks"
    child = fork
    Process.wait(child) if child
    [200, {}, []]
  when "/fails"
    raise ArgumentError, "mine"
  when "/streams"
    [201, {}, Enumerator.new { |parts| 3.times { parts << "x" && $kept << Kept.new } }] # streamed
  end
end

def ask(app, path)
  env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => path, "REQUEST_URI" => "#{path}?a=\"b\"" }
  env["action_dispatch.request.path_parameters"] = { controller: "home", action: "index" }
  status, _, body = app.call(env)
  text = +""
  body.each { |part| text << part }
  2.times { body.close if body.respond_to?(:close) }
  exit! if Process.pid != PID
  p [status, text]
rescue ArgumentError => error
  p error.message
end

case way
when "middleware"
  require "memprof/middleware"
  ask(Memprof::Middleware.new(App), "/leaks")
  ask(Memprof::Middleware.new(App, force_gc: true), "/garbage")
  ask(Memprof::Middleware.new(App), "/streams")
when "tracer"
  require "memprof/tracer"
  Memprof.trace_filename = File.join(folder, "lines")
  tracer = Memprof::Tracer.new(App)
  %w[/leaks /fails /streams].each { |path| ask(tracer, path) }
  request = Struct.new(:env, :path_parameters).new({ "PATH_INFO" => "/filtered" },
                                                   { "controller" => "own", "action" => "show" })
  response = Struct.new(:status).new(302)
  Memprof::Filter.around(Struct.new(:request, :response).new(request, response)) do
    $kept << Kept.new # filtered
  end
  p(Memprof.trace_request({ "PATH_INFO" => "/traced" }) { [204, {}, []] })
  _, _, open = tracer.call({ "PATH_INFO" => "/leaks" })
  ask(tracer, "/leaks")
  p open.to_ary
  Memprof.start
  ask(tracer, "/leaks")
  p Memprof.stop
  %w[/calls /forks].each { |path| ask(tracer, path) }
when "both"
  require "memprof/tracer"
  require "memprof/middleware"
  Memprof.trace_filename = File.join(folder, "lines")
  ask(Memprof::Tracer.new(Memprof::Middleware.new(App)), "/leaks")
when "signal"
  heard = []
  trap("URG") { |number| heard << number }
  require "memprof/signal"
  require "socket"
  at_exit { puts "at exit" }
  $kept = Array.new(5) { Kept.new } # heard
  20.times { Kept.new }
  lost = Object.new
  ObjectSpace.define_finalizer(lost, proc { puts "finalized" })
  lost = nil
  ours, theirs = UNIXSocket.pair
  file = File.open(File.join(folder, "once"), "w")
  file.write("once\n")
  2.times do |turn|
    Process.kill("URG", Process.pid)
    sleep 0.01 until heard.size > turn
  end
  begin
    p Process.wait(-1, Process::WNOHANG)
  rescue Errno::ECHILD
    puts "no child"
  end
  p $?
  ours.close
  p theirs.read
  file.close
  $stdout.flush
  sleep 0.05 until Dir.glob(File.join(folder, "memprof-*.json")).size == 2
end

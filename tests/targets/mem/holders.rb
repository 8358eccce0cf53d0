# Has objects whose holders are known, and asks ObjectSpace whether they hold them.
require "io/wait"
require "json"
require "objspace"

puts "ready"
$stdout.flush
sleep 0.01 until $stdin.wait_readable(0)
$stdin.gets

class Server
  CACHE = []
  def initialize
    @sessions = []
  end
  attr_reader :sessions
end

20.times { |number| Server::CACHE << [number] } # held: constant
$server = Server.new
20.times { |number| $server.sessions << [number] } # held: attribute
GC.disable
20.times { first = []; first << [first] } # held: cycle

def holds(holder, held)
  ObjectSpace.reachable_objects_from(holder).any? { |one| one.equal?(held) }
end

pairs = [[Server, Server::CACHE], [Server::CACHE, Server::CACHE[3]]]
pairs += [[$server, $server.sessions], [$server.sessions, $server.sessions[3]]]
puts pairs.map { |pair| holds(*pair) }.to_json
$stdout.flush
sleep 0.01 until $stdin.wait_readable(0)
puts "the end"

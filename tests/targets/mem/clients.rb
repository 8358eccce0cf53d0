# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

# `ruby clients.rb WAY PLACE`: asks a server by a client, traced; prints the groups.
require "json"
require "memprof"
require "tempfile"

way, place = ARGV
require way

def traced(&block)
  Tempfile.create("traced") do |file|
    Memprof.trace(file.path, &block)
    puts File.read(file.path)
  end
end

case way
when "pg"
  traced do
    base = PG.connect(host: place, user: "bench", dbname: "postgres")
    base.exec("create table words (word text)")
    10.times { |number| base.exec_params("insert into words values ($1)", ["x" * number]) }
    5.times { base.exec("select * from words").to_a }
    base.prepare("one", "select $1::int")
    4.times { base.exec_prepared("one", [1]) }
    base.transaction { |inner| inner.exec("delete from words") }
    base.sync_exec("drop table words")
    base.close
  end
when "mysql2"
  traced do
    base = Mysql2::Client.new(socket: place, username: "root", database: "mysql")
    base.query("create table words (word text)")
    statement = base.prepare("insert into words values (?)")
    10.times { |number| statement.execute("x" * number) }
    5.times { base.query("select * from words").to_a }
    base.query("delete from words")
    base.query("drop table words")
    base.close
  end
end

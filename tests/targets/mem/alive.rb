# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: false
# Objects whose ends are known: a mark says what is alive of a line at the end, after a collection.

GC.disable if ARGV[0] == "disable"
require "bigdecimal"
require "json"
require "stringio"

$kept = []

def literals
  100.times { $kept << "literal" } # alive: 100 String
  30.times { $kept << [1, 2, 3] } # alive: 30 Array
  20.times { $kept << { a: 1, b: 2 } } # alive: 20 Hash
  15.times { |i| $kept << "text #{i}" } # alive: 15 String
  10.times { |i| $kept << (i..(i + 1)) } # alive: 10 Range
  12.times { |i| $kept << (2**70 + i) } # alive: 12 Integer
  14.times { |i| $kept << 1.5e300 * (i + 1) } # alive: 14 Float
  8.times { |i| $kept << Rational(i, 7) << Complex(i, 1) } # alive: 8 Rational, 8 Complex
  9.times { |i| $kept << "a#{i}".to_sym << :"b#{i}".to_proc } # alive: 18 Symbol, 18 String, 9 Proc
end

def temporaries
  500.times { "short " + "lived" } # alive: none
  500.times { [Object.new, {}] } # alive: none
  500.times { |i| i.to_s.upcase } # alive: none
  1000.times.map { |i| [i] }.select { |pair| pair[0].odd? }.sum { |pair| pair[0] } # alive: none
end

def cycles
  300.times do
    ring = [] # alive: none
    ring << [ring] # alive: none
  end
  $ring = []; $ring << [$ring] # alive: 2 Array
end

Point = Struct.new(:x, :y)
Sub = Class.new(Array)
module Outer
  class Inner
    def initialize(value)
      @value = value
    end
  end
end

def classes
  25.times { |i| $kept << Point.new(i, i) } # alive: 25 Point
  16.times { $kept << Sub.new } # alive: 16 Sub
  18.times { $kept << Outer::Inner.new(nil) } # alive: 18 Outer::Inner
  7.times { $kept << Outer::Inner.new("in") << [] } # alive: 7 Outer::Inner, 7 String, 7 Array
  5.times { $kept << Class.new } # alive: 5 Class
  6.times { $kept << Class.new.new } # alive: 6 #<Class>, 6 Class
  4.times { $kept << Object.new.tap { |own| def own.name; end } } # alive: 4 Object, 4 Class
  3.times { $kept << Module.new } # alive: 3 Module
end

def code
  11.times { $kept << proc {} } # alive: 11 Proc
  13.times { $kept << lambda { |a| a } } # alive: 13 Proc
  17.times { $kept << 5.method(:+) } # alive: 17 Method
  19.times { $kept << [1].each } # alive: 19 Enumerator, 19 Array
  eval("21.times { $kept << 'inside' }", nil, "made.rb", 77)
  self.class.define_method(:defined) { 22.times { $kept << Object.new } } # alive: 22 Object, 1 Proc
  defined
end

def threads
  4.times do
    $kept << Thread.new { 10.times { $kept << "of a thread" } } # alive: 40 String, 4 Thread, 4 Proc
    $kept.last.join
  end
  $fiber = Fiber.new { Fiber.yield([5.0e300 * 2]) } # alive: 1 Fiber, 1 Proc, 1 Float, 1 Array
  $kept << $fiber.resume
end

def extensions
  23.times { $kept << StringIO.new } # alive: 23 StringIO, 23 String
  24.times { |i| $kept << BigDecimal(i) } # alive: 24 BigDecimal
  $json = JSON.parse("[" + (["{\"a\": \"b\"}"] * 26).join(",") + "]")
end

def changes
  many = 40.times.map { "old" } # alive: none
  many.map! { "new" } # alive: 40 String
  $many = many.select { true } # alive: 1 Array
  $grown = []; 2000.times { |i| $grown << i } # alive: 1 Array
  $long = "x" * 5000; $long << "y" * 5000 # alive: 1 String
end

def deeper(depth, &what)
  depth.zero? ? what.call : deeper(depth - 1, &what)
end

# What collections find on the stack stays: it is written over.
def run(name)
  deeper(20) { send(name) }
  deeper(60) { [nil, name].hash }
end

%i[literals temporaries cycles classes code threads extensions changes].each { |name| run(name) }
at_exit { $last = Array.new(27) { |i| "last #{i}" } } # alive: 27 String, 1 Array
puts $kept.size

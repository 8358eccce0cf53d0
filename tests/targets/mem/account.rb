# SPDX-License-Identifier: Apache-2.0
# Ruby's own account of its objects: `ruby -r ./account.rb PROGRAM` writes a line for each file, line
# and class to the file ACCOUNT names: how many objects are alive at the end, and their bytes.

require "objspace"

at_exit do # the first one registered runs last
  GC.enable
  GC.start if ENV["ACCOUNT_COLLECT"]
  GC.disable
  objects = []
  ObjectSpace.each_object(BasicObject) { |object| objects << object }
  sizes = objects.map { |object| ObjectSpace.memsize_of(object) } # asking for names makes some grow
  rows = Hash.new { |all, key| all[key] = [0, 0] }
  objects.zip(sizes) do |object, size|
    file = ObjectSpace.allocation_sourcefile(object) or next
    type = Kernel.instance_method(:class).bind_call(object).name || "#<Class>"
    row = rows[[file, ObjectSpace.allocation_sourceline(object), type]]
    row[0] += 1
    row[1] += size
  end
  File.write(ENV.fetch("ACCOUNT"), rows.map { |key, row| [*key, *row].join("\t") }.join("\n"))
end
ObjectSpace.trace_object_allocations_start

# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

require "memprof"

# A dump of all objects for each SIGURG that the process gets.
#
#   require "memprof/signal"
#
# Objects are counted from then on. At a signal the process forks; its grandchild collects garbage
# and writes /tmp/memprof-PID-TIME.json, as Memprof.dump_all does. SOSCOPE_MEM_DUMPS in the
# environment names another folder. The child executes no exit handler and no finalizer of the
# program's, and has none of its files and sockets. Where objects are not counted, the signal does
# what it did.
module Memprof
  module OnSignal # :nodoc:
    DUP2 = 33
    @second = @dumps = 0

    class << self
      attr_accessor :before

      def install
        Memprof.start
        require "objspace" # a handler cannot require anything
        self.before = trap("URG") { |number| heard(number) }
      rescue Unsupported => error
        warn("memprof: SIGURG makes no dumps: #{error.message}")
      end

      private

      def heard(number)
        path = next_path
        between = fork { apart { fork { apart { dump(path) } } } }
        # $? stays as it was: it is each thread's own
        Thread.new { wait(between) }.join
        before.call(number) if before.respond_to?(:call)
      rescue SystemCallError => error
        warn("memprof: no dump was made: #{error.message}")
      end

      def wait(pid)
        Process.wait(pid)
      rescue SystemCallError
        nil # the program lets the kernel reap all of its children, or another thread was faster
      end

      def apart
        yield
      ensure
        exit!(0)
      end

      def next_path
        second = Time.now.to_i
        @dumps = second == @second ? @dumps + 1 : 1
        @second = second
        which = @dumps > 1 ? "-#{@dumps}" : ""
        folder = ENV["SOSCOPE_MEM_DUMPS"] || "/tmp"
        File.join(folder, "memprof-#{Process.pid}-#{second}#{which}.json")
      end

      # In the child.
      def dump(path)
        %w[HUP INT QUIT USR1 USR2 TERM CHLD URG].each { |name| trap(name, "IGNORE") }
        leave_files
        leave_finalizers
        GC.start
        Memprof.dump_all(path)
      end

      # What garbage has not written yet goes to /dev/null, and no connection is ended.
      def leave_files
        nothing = IO.sysopen(File::NULL, File::RDWR)
        Dir.children("/proc/self/fd").each do |name|
          syscall(DUP2, nothing, name.to_i) unless name.to_i == nothing
        rescue SystemCallError
          next # the folder itself
        end
      end

      def leave_finalizers
        frozen = Kernel.instance_method(:frozen?)
        ObjectSpace.each_object(BasicObject) do |object|
          ObjectSpace.undefine_finalizer(object) unless frozen.bind_call(object)
        end
      end
    end

    Agent.ours(__FILE__) if Memprof.const_defined?(:Agent, false)
    install
  end
  private_constant :OnSignal
end

# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

Gem::Specification.new do |spec|
  spec.name = "soscope"
  spec.version = File.read(File.join(__dir__, "lib/memprof.rb"))[/VERSION = "(.+)"/, 1]
  spec.summary = "Which objects stay alive, by the file and line that made them, and by class"
  spec.description = "memprof's interface (Memprof.start, stats, track, stop) for programs " \
                     "that run under `soscope mem run`"
  spec.authors = ["The soscope authors"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 2.7"
  spec.files = Dir.glob("lib/**/*.rb", base: __dir__).sort + ["README.md"]
end

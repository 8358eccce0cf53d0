# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

# soscope's agent knows this file by its path. It defines Memprof::Agent as soon as Ruby lets it in,
# which is at the end of one of the next calls.
module Memprof
  1000.times { break if const_defined?(:Agent, false) || Thread.pass }
  if const_defined?(:Agent, false)
    private_constant :Agent
    Agent.ours(__FILE__)
  end
end

# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

module Memprof
  # What is known of the agent; made by soscope.instruments.mem.inside.
  module Tables
    FINGERPRINT = 508_937_816_341_124_496
    WIRE_VERSION = 1
    INSIDE_MAGIC = 3_560_500_604_125_278_067
    INSIDE_AT = 21_495_808
    TALLY_FORMAT = "L<L<Q<Q<Q<Q<Q<Q<Q<L<L<Q<L<L<Q<L<L<Q<Q<L<L<"
    TALLY_SIZE = 128
    TALLY_FIELDS = %i[size order tables images iterate usable resident counts wires count_room flags functions function_count slots lefts left_count left_more ticks found sqlites reserved].freeze
    FUNCTION_FORMAT = "a48a24CCCCCCCCS<S<3"
    FUNCTION_SIZE = 88
    FUNCTION_FIELDS = %i[name operation group requested first second actual third fourth words flags reserved].freeze
    COUNT_FORMAT = "Q<Q<Q<Q<Q<12"
    COUNT_SIZE = 128
    COUNT_FIELDS = %i[calls ticks requested actual kinds].freeze
    WIRE_FORMAT = "Q<Q<Q<Q<Q<Q<Q<Q<"
    WIRE_SIZE = 64
    WIRE_FIELDS = %i[connects sends sent receives received round_trips ticks reserved].freeze
    LEFT_FORMAT = "L<L<a120"
    LEFT_SIZE = 128
    LEFT_FIELDS = %i[function why path].freeze
  end
  private_constant :Tables
end

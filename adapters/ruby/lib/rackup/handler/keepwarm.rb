# frozen_string_literal: true

require "keepwarm/handler"

module Rackup
  # Rack 3: `rackup -s keepwarm`, or RACKUP_HANDLER=keepwarm.
  module Handler
    Keepwarm = ::Keepwarm::Handler
    register :keepwarm, Keepwarm if respond_to?(:register)
  end
end

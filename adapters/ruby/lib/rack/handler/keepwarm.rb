# frozen_string_literal: true

require "keepwarm/handler"

module Rack
  # Rack 2: `rackup -s keepwarm`, or RACK_HANDLER=keepwarm.
  module Handler
    Keepwarm = ::Keepwarm::Handler
    register "keepwarm", "Rack::Handler::Keepwarm" if respond_to?(:register)
  end
end

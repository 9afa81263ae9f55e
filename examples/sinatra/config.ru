# frozen_string_literal: true

require "rack/lint"
require "uri" # lint needs it, but does not require it
require_relative "continue"
require_relative "echo"
require_relative "shop"

use Continue
use Rack::Lint if ENV["LINT"]
map("/exit") { run ->(_) { exit 3 } } # Sinatra itself turns that into a response
map("/echo") { run Echo }
run Shop

# frozen_string_literal: true

# The application of the tests under the Rack that is installed, with its lint around it unless LINT is "no".
require "rack/lint"
require "uri" # lint needs it and does not say so
require_relative "app"

use Rack::Lint unless ENV["LINT"] == "no"
run ->(env) { ROUTES.fetch(env["PATH_INFO"]).call(env) }

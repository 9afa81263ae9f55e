# frozen_string_literal: true

require_relative "lib/keepwarm/version"

Gem::Specification.new do |spec|
  spec.name = "keepwarm"
  spec.version = Keepwarm::VERSION
  spec.summary = "Runs a Rack application inside a worker process of Keepwarm"
  spec.authors = ["Keepwarm contributors"]
  spec.licenses = ["Apache-2.0", "MIT"]
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir["README.md", "exe/*", "lib/**/*.rb"]
  spec.bindir = "exe"
  spec.executables = ["keepwarm-worker"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end

# frozen_string_literal: true

require_relative "lib/keepwarm/version"

# `packaging/gem.py` builds it: for a platform with the program in exe/PLATFORM, and without one.
Gem::Specification.new do |spec|
  spec.name = "keepwarm"
  spec.version = Keepwarm::VERSION
  spec.summary = "Serves a Rack application from long-lived workers: the program keepwarm and its adapter"
  spec.authors = ["Keepwarm contributors"]
  spec.licenses = ["Apache-2.0", "MIT"]
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir["README.md", "LICENSE-*", "exe/**/*", "lib/**/*.rb"].select { |file| File.file?(file) }.sort
  spec.bindir = "exe"
  spec.executables = %w[keepwarm keepwarm-worker]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end

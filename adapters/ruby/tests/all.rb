# frozen_string_literal: true

# Every test of the adapter: `ruby adapters/ruby/tests/all.rb [minitest's options]`. Standard library and minitest only.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__), __dir__)
require "minitest/autorun"
Dir[File.join(__dir__, "test_*.rb")].sort.each { |file| require file }

# frozen_string_literal: true

module Keepwarm
  VERSION = "0.1.0"
end

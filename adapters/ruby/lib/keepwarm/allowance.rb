# frozen_string_literal: true

require "keepwarm/wire"

module Keepwarm
  # The bytes Keepwarm may still send, on one stream or on the connection (spec/wire.md §6).
  #
  # `spend` when bytes arrive, `pay` when they have left this process; `pay` says how much credit to give back now. Credit goes
  # back in steps of a quarter of the first value. `left + owed` plus what is in memory is always that value.
  class Allowance
    attr_reader :left, :owed

    def initialize(first)
      @left = first
      @owed = 0
      @step = first / 4
    end

    # Raises `Fault` when Keepwarm sends more than it may.
    def spend(size)
      @left -= size
      raise Fault.new("credit_spent", "more bytes than the credit allows") if @left.negative?
    end

    # 0, or the credit to give back.
    def pay(size)
      @owed += size
      return 0 if @owed < @step

      amount = @owed
      @owed = 0
      @left += amount
      amount
    end

    # A credit of ours after a CREDIT of `amount`.
    def self.added(credit, amount)
      credit += amount
      raise Fault.new("credit_overflow", "a credit above 2^31-1") if credit > Wire::MAX_CREDIT

      credit
    end
  end
end

# frozen_string_literal: true

require "keepwarm/allowance"

module Keepwarm
  # A request on the wire for as long as it is open: what may be sent for it, and what of its body has come.
  #
  # `id` is 0 when it is over. `gone`: nobody waits for its response any more. `answered`: the end of the response is on its way, so
  # that another request may come.
  class Stream
    # Bytes of a body that may wait in this process; spec/wire.md §3 asks for 65,536 at least.
    RECEIVE_CREDIT = 262_144

    attr_reader :id, :parts, :allowance
    # `held`: what the connection is to get back for DATA of this stream.
    attr_accessor :credit, :held, :gone, :responded, :body_ended, :body_lost

    def initialize
      @id = 0
      @credit = @held = 0
      @gone = @responded = @body_lost = false
      @body_ended = true
      @parts = nil # payloads of DATA that the application has not read
      @allowance = nil
    end

    # A REQUEST has come, and its body with it.
    def open(id, credit)
      @id = id
      @credit = credit
      @held = 0
      @gone = @responded = @body_lost = false
      @body_ended = true
    end

    # The body of this request did not come whole.
    def expect_body
      @parts = []
      @body_ended = false
      @allowance = Allowance.new(RECEIVE_CREDIT)
    end

    # The response is over, or the wire.
    def over
      @id = 0
      @body_ended = true
      @parts&.clear
    end

    # The client or the wire has gone.
    def lose
      @gone = @body_lost = @body_ended = true
    end
  end
end

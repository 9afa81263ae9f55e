# frozen_string_literal: true

require "keepwarm/connection"

module Keepwarm
  # The wire of a worker that serves one request at a time. A waiting method reads the wire itself.
  #
  # The order of calls: `read_welcome`, `say_hello`, then for each request `begin_stream`, any of the sending ones and `wait`,
  # and `end_stream`. `idle`: blocked, or about to block, in the read for a next request.
  class Serial < Connection
    AHEAD = 3 # REQUESTs that may wait here after the current one (spec/wire.md §3)

    attr_reader :waiting, :drain_asked, :interruption
    attr_accessor :idle
    attr_writer :admitted

    def initialize(sock)
      super
      @stream = Stream.new # one object for all requests
      @ahead = 0 # how many REQUESTs may wait
      @waiting = [] # frames of REQUESTs that came while another was in work
      @idle = false
      @main = Thread.main # where Ruby runs signal handlers
      @admitted = false # whether code of the application runs there
      @interruption = nil # what a signal handler raised while none did, within a request
      @incoming = String.new(capacity: READ_SIZE, encoding: Encoding::BINARY)
    end

    def say_hello(streams, about)
      @ahead = AHEAD
      super(streams, about.merge("ahead" => AHEAD.to_s))
    end

    # As `read`, in a string that is used again for the next.
    def receive
      @sock.recv(READ_SIZE, Socket::MSG_DONTWAIT, @incoming)
      @incoming.empty? ? nil : @incoming
    rescue SystemCallError, IOError
      nil
    end

    public :next_frame

    # A REQUEST has come, `whole` or with more of its body to come. Raises `Fault` when its id was used before.
    def begin_stream(id, whole)
      check_order(id)
      @stream.open(id, @first_credit)
      @stream.expect_body unless whole
      @stream
    end

    # A request is over that came while requests are measured.
    def due
      @measuring ||= @last_stream if @growth
    end

    # The response is over. What comes for it from now on is read and forgotten.
    def end_stream
      @stream.over
      settle(@stream)
    end

    # Waits for a frame and does what it says; for use within a request. At the wire's end the stream is `gone`.
    def wait(_stream = nil)
      synchronize do
        until undivided { act_on_next }
          admitted { @sock.wait_readable } # here, and only here, what the application has set up to end a wait may end it: no byte is lost by it
          undivided { read_more }
        end
      end
    end

    # Does what has come, without waiting.
    def poll
      return if @lost

      synchronize do
        undivided do
          # Not `recv_nonblock`: that would make the socket non-blocking, and every later read two calls.
          read_more if @sock.wait_readable(0)
          nil while !@buffer.empty? && !@lost && act_on_next
        end
      end
    end

    def handle(kind, flags, id, payload)
      return super unless kind == Wire::REQUEST && @waiting.size < @ahead
      raise Fault.new("stream_limit", "a REQUEST before the GROWTH of stream #{@last_stream}") if @growth

      @waiting << [kind, flags, id, payload]
    end

    # Asks Keepwarm for no more requests, once (§8). Safe in a signal handler: never inside another frame.
    def ask_to_drain
      @drain_asked = true
      say_drain if @idle
    end

    # Sends what `ask_to_drain` could not, because a request was running.
    def settle_drain
      say_drain if @drain_asked
    end

    # After a callable body has returned: until its stream is closed by another thread, or nobody waits for it.
    def linger(stream, body)
      ended, ending = IO.pipe
      body.on_close { ending.close }
      until ending.closed? || stream.gone
        admitted { IO.select([@sock, ended]) }
        poll
      end
      settle(@stream)
      @stream = Stream.new # that thread may hold on to this one
    ensure
      [ended, ending].each { |pipe| pipe&.close }
    end

    # What the application's signal handlers raise goes to its own code if that is running. Else it waits until it is again, or until the request is over
    # (`take_interruption`). While no request is in work it is a record in the log, unless it is to end the process.
    def interrupted(error)
      return super if @idle || forked?
      raise error if @admitted

      @interruption ||= error
    end

    def take_interruption
      error = @interruption
      @interruption = nil
      error
    end

    def admitted
      return yield if @admitted || !Thread.current.equal?(@main)

      begin
        @admitted = true
        raise take_interruption if @interruption

        yield
      ensure
        @admitted = false
      end
    end

    def held
      return yield unless @admitted && Thread.current.equal?(@main)

      @admitted = false
      begin
        result = yield
      ensure
        @admitted = true
      end
      raise take_interruption if @interruption

      result
    end

    def undivided
      held { super }
    end

    private

    # Does what the first frame in the buffer says. False: there is none yet.
    def act_on_next
      return true if @lost
      return false if (frame = Wire.take_frame(@buffer)).nil?

      handle(*frame)
      true
    rescue Fault => fault
      self.fail(fault)
      true
    end

    def read_more
      data = read
      data ? @buffer << data : end_of_wire
    end

    def open_stream(id)
      @stream if @stream.id == id
    end

    # Whether Keepwarm waits for the response of a request.
    def request_open?
      (@stream.id != 0 && !@stream.responded) || !@waiting.empty?
    end

    # Forgets a REQUEST that waits; whether there was one.
    def withdraw(id)
      !@waiting.reject! { |frame| frame[2] == id }.nil?
    end

    def end_of_wire
      @lost = true
      @stream.lose
    end
  end
end

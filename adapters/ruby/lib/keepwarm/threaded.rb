# frozen_string_literal: true

require "keepwarm/connection"

module Keepwarm
  # The wire of a worker that serves several requests at once, each in a thread of its own. One thread reads for all.
  #
  # What threads share is changed under one lock, which waiting lets go of; frames leave under another, taken last.
  class Threaded < Connection
    def initialize(sock, threads)
      super(sock)
      # A request whose body nobody reads must not hold up the others.
      @received = [RECEIVE_CREDIT * threads, Wire::MAX_CREDIT].min
      @allowance = Allowance.new(@received)
      @limit = threads
      @changed = @lock.new_cond
      @writing = Monitor.new
      @streams = {} # open ones, by id
      @rested = 0 # the last that was measured and is over, with all that is done for it
    end

    # Reads until Keepwarm goes or a fault ends it. Yields `flags, stream, payload` of each REQUEST.
    def read_forever(&block)
      @growth ? read_below(&block) : read_one(&block) until @lost
    rescue Lost
      end_of_wire
    rescue Fault => fault
      self.fail(fault)
    end

    # Waits until Keepwarm wants no more of this process, and no request is open. For the main thread.
    def wait_for_the_end
      synchronize { @changed.wait until (@leaving || @lost) && @streams.empty? }
    end

    # The response is over. What comes for it from now on is read and forgotten.
    def end_stream(stream)
      synchronize do
        @streams.delete(stream.id)
        stream.over
        settle(stream)
        @changed.broadcast
      end
    end

    # A thread has finished a request that is measured, and holds nothing of it.
    def rested(id)
      synchronize do
        @rested = id
        @changed.broadcast
      end
    end

    # Waits until a frame has arrived, for any stream; for use in `synchronize`.
    def wait(_stream = nil)
      @changed.wait unless @lost
    end

    # What has come has been handled by the thread that reads.
    def poll; end

    # After a callable body has returned: until its stream is closed, or nobody waits for it.
    def linger(stream, body)
      body.on_close { synchronize { @changed.broadcast } }
      synchronize { @changed.wait until body.closed? || stream.gone }
    end

    def send(data, socket = nil)
      undivided { send_now(data, socket) }
    end

    # Asks Keepwarm for no more requests, once (§8). No lock can be taken in a signal handler, so a thread does it.
    def ask_to_drain
      Thread.new { synchronize { say_drain } }
    end

    private

    # If this fails, the end of the wire is reported without this lock: a thread that holds the other may be waiting for it.
    def write(data, socket)
      @writing.synchronize { super }
    end

    # While requests are measured, it waits where nothing of a frame has been on the stack.
    def read_below(&block)
      @sock.wait_readable if @buffer.empty?
      Growth.below { read_one(&block) }
    end

    def read_one
      kind, flags, id, payload = next_frame
      @lock.synchronize do
        next yield(flags, begin_stream(id, flags & Wire::END_BODY != 0), payload) if kind == Wire::REQUEST

        handle(kind, flags, id, payload)
        @changed.broadcast
      end
    end

    def begin_stream(id, whole)
      check_order(id)
      due(id) if @growth
      if @streams.size >= @limit && @streams.each_value.count { |stream| !stream.responded } >= @limit
        raise Fault.new("stream_limit", "a REQUEST beyond the limit of #{@limit}")
      end

      stream = Stream.new
      stream.open(id, @first_credit)
      stream.expect_body unless whole
      @streams[id] = stream
    end

    # The GROWTH of this request, unless that of another is.
    def due(id)
      raise Fault.new("stream_limit", "stream #{id} before the GROWTH of #{@measuring.zero? ? "LEAKS" : "stream #{@measuring}"}") if @measuring

      @measuring = id
    end

    def open_stream(id)
      @streams[id]
    end

    def request_open?
      @streams.each_value.any? { |stream| !stream.responded }
    end

    # A thread of its own measures until the end: those of the requests have other stacks each time.
    def begin_growth
      super
      growth = @growth
      Thread.new { measure_forever(growth) }.name = "keepwarm growth"
    end

    def measure_forever(growth)
      measure while growth_due?(growth)
    end

    # Waits for a request to be over; false when measuring is.
    def growth_due?(growth)
      synchronize do
        @changed.wait until @lost || !growth.equal?(@growth) || (@measuring&.zero? ? @streams.empty? : @measuring == @rested)
        !@lost && growth.equal?(@growth)
      end
    end

    def withdraw(_id)
      false
    end

    def end_of_wire
      synchronize do
        @lost = true
        @streams.each_value(&:lose)
        @changed.broadcast
      end
    end
  end
end

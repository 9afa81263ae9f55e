# frozen_string_literal: true

require "io/wait"
require "monitor"
require "socket"
require "keepwarm/log"
require "keepwarm/profile"
require "keepwarm/stream"
require "keepwarm/wire"

module Keepwarm
  # One worker's end of the wire: frames in and out, credit, the close. `Serial` and `Threaded` decide which thread reads.
  #
  # Nothing here raises because Keepwarm has gone: `lost` says so, and what is sent then is dropped.
  # `leaving`: Keepwarm said DRAIN. `faulty`: the wire's rules were broken, by Keepwarm.
  class Connection
    RECEIVE_CREDIT = Stream::RECEIVE_CREDIT
    READ_SIZE = 65_536 # nearly every REQUEST in one call
    NEVER = { Object => :never }.freeze # for Thread.handle_interrupt
    ASK_WHO = !Process.respond_to?(:_fork) # Ruby 3.0 tells nobody of a fork: each write asks the system which process it is in

    # `application`: what it serves, which only `Growth` looks at.
    attr_accessor :buffer, :application
    # `requests`: how many have come. `growth`: what measures them, nil when nothing does.
    attr_reader :sock, :lost, :leaving, :faulty, :first_credit, :last_stream, :requests, :profile, :growth

    def initialize(sock)
      @sock = sock
      @owner = $$
      @lock = Monitor.new # what the threads of an application may change together
      @buffer = String.new(encoding: Encoding::BINARY) # the beginning of a frame whose end has not come
      @lost = @leaving = @faulty = @drain_asked = @drain_said = false
      @last_stream = @requests = 0
      @first_credit = @credit = 0 # what this worker may send
      @received = RECEIVE_CREDIT # how much may wait here, of all streams together
      @allowance = Allowance.new(@received)
      @hijacked = [] # sockets
      @profile = Profile.new
      @growth = nil
      @measuring = nil # the stream whose GROWTH is due; 0 for the response to LEAKS
    end

    # Waits for WELCOME; gives its names. Raises `Fault` or `Lost`.
    def read_welcome
      kind, _, _, payload = next_frame
      raise Fault.new("before_welcome", format("a frame of type 0x%02x before WELCOME", kind)) if kind != Wire::WELCOME

      @first_credit, @credit, about = Wire.read_welcome(payload)
      about
    end

    # Tells Keepwarm that the application is ready.
    def say_hello(streams, about)
      send(Wire.hello(streams, RECEIVE_CREDIT, @received, about))
    end

    # Whether this process is a forked child, to which the wire does not belong.
    def forked?
      $$ != @owner
    end

    # This is a child: the wire is none of its business. The number stays in use, as `/dev/null`: were it free, the child's
    # next file would get it.
    def on_fork
      end_of_wire
      null = File.open(File::NULL, "r+")
      @sock.reopen(null)
      @sock.close_on_exec = true
      null.close
    end

    # Ends the connection (§2). Keepwarm replaces this worker.
    def fail(fault)
      Log.write("fault on the wire: #{fault.message}")
      @faulty = true
      end_of_wire
      @sock.close
    end

    # -- sending ------------------------------------------------------------------------------------------------------

    # Sends whole frames, from within the application's own calls too: no `Timeout` of the application breaks one in two, and
    # no thread of it comes in between. With `socket` beside them, which is Keepwarm's from then on.
    def send(data, socket = nil)
      undivided { @lock.synchronize { send_now(data, socket) } }
    end

    # Sends what has been noted for a profile.
    def send_samples
      send(@profile.take)
    end

    # A signal handler of the application raised this, in the main thread, and nothing of the application is there to rescue it.
    def interrupted(error)
      raise error if forked? || Keepwarm.ends_process?(error)

      Log.exception(error)
    end

    # The block is code of the application.
    def admitted
      yield
    end

    # The block is not, within some that is.
    def held
      yield
    end

    # Completes the block: an exception from a `Timeout` or a signal handler of the application is raised after it.
    def undivided(&block)
      Thread.handle_interrupt(NEVER, &block)
    end

    # The application has taken a connection over: this process lives until that is over, too.
    def hijacked(socket)
      synchronize { (@hijacked = @hijacked.reject { |one| over?(one) }) << socket }
    end

    # Waits until all of those are over. Keepwarm ends them when the time to finish is.
    def wait_for_hijacked
      sleep 0.05 until @hijacked.all? { |one| over?(one) }
    end

    # Sends whole frames, when no code of the application is running. Half a frame is the end of the wire, whatever came in between.
    def send_now(data, socket = nil)
      return if @lost || (ASK_WHO && $$ != @owner)

      begin
        written = write(data, socket)
      ensure
        end_of_wire unless written
      end
    end

    # Sends `body` as DATA, under credit; END on the last frame if `last`. False: nobody waits for it.
    def send_data(stream, body, last)
      body = body.b unless body.encoding == Encoding::BINARY
      at = 0
      size = body.bytesize
      while at < size
        admitted { nil } # nothing is half done here
        room = take_credit(stream, [size - at, Wire::MAX_CHUNK].min)
        return false if room.zero?

        piece = body.byteslice(at, room)
        at += room
        send(Wire.frame(Wire::DATA, last && at == size ? Wire::END_BODY : 0, stream.id, piece))
      end
      last || !stream.gone # nothing may follow END, not even the news of a disconnect that another thread has just read
    end

    # -- receiving ----------------------------------------------------------------------------------------------------

    # Does what a frame says; every type but REQUEST.
    def handle(kind, flags, id, payload)
      case kind
      when Wire::DATA then data(flags, id, payload)
      when Wire::CREDIT then credit(id, Wire.decode_credit(payload))
      when Wire::PING then send(@profile.end + Wire.frame(Wire::PONG, 0, 0, payload))
      when Wire::RESET then reset(id, payload)
      when Wire::TRAILERS then trailers(id, payload)
      when Wire::DRAIN then @leaving = true
      when Wire::LEAKS then flags.zero? ? begin_growth : end_growth
      when Wire::HALF_CLOSE then stream(id) # a fault, if it was never opened; Rack has no word for it
      when Wire::TEXT, Wire::BINARY, Wire::CLOSE
        raise Fault.new("not_websocket", "a message on a stream that is not a WebSocket") if stream(id)
      when Wire::WELCOME then raise Fault.new("second_welcome", "a second WELCOME")
      else raise Fault.new("stream_limit", "a REQUEST beyond the limit")
      end
    end

    # Sends what has changed with the last request, or that the first count is done. For when nothing of the request is left on the stack.
    def measure
      growth = @growth
      due = @measuring
      return if growth.nil? || due.nil?

      frame = growth.measure(due)
      synchronize do
        next unless growth.equal?(@growth) # its end has come meanwhile

        @measuring = nil
        send(frame)
      end
    end

    # `size` bytes of DATA have left this process: gives their credit back, in steps.
    def consumed(stream, size)
      undivided do
        @lock.synchronize do
          next if stream.held.zero? # read after the end, when all credit has been returned

          stream.held -= size
          back = stream.allowance.pay(size)
          send(Wire.credit(stream.id, back)) if back.positive? && !stream.body_ended && !stream.responded
          pay_connection(size)
        end
      end
    end

    def synchronize(&block)
      @lock.synchronize(&block)
    end

    private

    # Writes all of it; whether that was possible.
    def write(data, socket)
      size = data.bytesize
      sent = socket ? @sock.sendmsg(data, 0, nil, Socket::AncillaryData.unix_rights(socket)) : @sock.send(data, 0)
      sent += @sock.send(data.byteslice(sent, size), 0) while sent < size # a signal came in between
      true
    rescue SystemCallError, IOError
      false
    end

    # Whether either end of a socket that was passed has been closed.
    def over?(socket)
      socket.closed? || socket.recv_nonblock(1, Socket::MSG_PEEK, exception: false).to_s.empty?
    rescue SystemCallError, IOError
      true
    end

    # The next frame, whole. Raises `Lost` at the wire's end.
    def next_frame
      while (frame = Wire.take_frame(@buffer)).nil?
        data = read
        raise Lost if data.nil?

        @buffer << data
      end
      frame
    end

    # The next bytes, or nil at the wire's end.
    #
    # A `recv` that waits is woken by Linux a second time, for nothing: when the other end has read the last response and there is room to write again
    # (`unix_write_space`). With this flag Ruby waits in a `poll` for reading, which is not.
    def read
      data = @sock.recv(READ_SIZE, Socket::MSG_DONTWAIT)
      data.empty? ? nil : data
    rescue SystemCallError, IOError
      nil
    end

    # Raises `Fault` when the id of a REQUEST was used before (§4).
    def check_order(id)
      raise Fault.new("stream_order", "stream #{id} after stream #{@last_stream}") if id <= @last_stream

      @last_stream = id
      @requests += 1
    end

    # LEAKS: from now on each request is measured (§11).
    def begin_growth
      raise Fault.new("leaks", "LEAKS while the worker measures") if @growth
      raise Fault.new("leaks", "LEAKS during a request") if request_open?

      require_relative "growth"
      @growth = Growth.new(@application)
      @measuring = 0
    end

    # LEAKS with END. What it responds to the LEAKS before it is still due.
    def end_growth
      raise Fault.new("leaks", "LEAKS with END, and no LEAKS before it") if @growth.nil?

      send(Wire.growth(0, 0, [])) if @measuring&.zero?
      @growth.finish
      @growth = @measuring = nil
    end

    # The open stream of this id, if it is one: what comes for a stream that is over is ignored (§5).
    def stream(id)
      raise Fault.new("unknown_stream", "a frame for stream #{id}, which was never opened") if id > @last_stream

      open_stream(id)
    end

    def data(flags, id, payload)
      @allowance.spend(payload.bytesize)
      stream = stream(id)
      return pay_connection(payload.bytesize) if stream.nil?

      body_goes_on(stream)
      stream.allowance.spend(payload.bytesize)
      stream.held += payload.bytesize
      stream.parts << payload
      stream.body_ended = flags & Wire::END_BODY != 0
    end

    def trailers(id, payload)
      Wire.decode_trailers(payload) # Rack has no API for them
      stream = stream(id)
      return if stream.nil?

      body_goes_on(stream)
      stream.body_ended = true
    end

    def body_goes_on(stream)
      raise Fault.new("body_over", "body data after the end of the body") if stream.body_ended
    end

    def reset(id, payload)
      Wire.decode_reason(payload)
      return send(Wire.reset(id, Wire::CANCELLED)) if withdraw(id)

      stream(id)&.lose
    end

    def credit(id, amount)
      if id.zero?
        @credit = Allowance.added(@credit, amount)
      elsif (stream = stream(id))
        stream.credit = Allowance.added(stream.credit, amount)
      end
    end

    # Waits until something may be sent; gives how much of `wanted` that is, 0 when nobody waits for it.
    def take_credit(stream, wanted)
      @lock.synchronize do
        wait(stream) while (room = take_what_there_is(stream, wanted)).zero? && !stream.gone
        room
      end
    end

    def take_what_there_is(stream, wanted)
      return 0 if stream.gone

      undivided do
        room = [stream.credit, @credit, wanted].min
        stream.credit -= room
        @credit -= room
        room
      end
    end

    # A stream is over: the connection gets back what it has not been given for it, read or not (§6).
    def settle(stream)
      held = stream.held
      stream.held = 0
      pay_connection(held) if held.positive?
    end

    def pay_connection(size)
      back = @allowance.pay(size)
      send(Wire.credit(0, back)) if back.positive?
    end

    def say_drain
      return if @drain_said || @leaving

      @drain_said = true
      send_now(Wire.frame(Wire::DRAIN, 0, 0))
    end
  end
end

# frozen_string_literal: true

require "keepwarm/hooks"
require "keepwarm/serial"
require "keepwarm/service"

module Keepwarm
  # The loop of a worker that serves one request at a time: a read, the application, a write.
  class SerialWorker
    MAX_REMEMBERED = 256 # patterns
    private_constant :MAX_REMEMBERED

    def initialize(connection, service, leaks)
      @connection = connection
      @service = service
      @leaks = leaks
      @ending = nil # what an application's `exit` raised
      @patterns = [] # of `unpack`, by the number of strings
    end

    # Serves requests until Keepwarm sends DRAIN or closes the connection; returns the exit status, or raises the `SystemExit` of the
    # application. One that a request raised is raised when Keepwarm sends DRAIN: a replacement is requested, and requests that have
    # already arrived are served, as by a worker with threads.
    def serve_forever
      Hooks.thread_start
      connection = @connection
      connection.profile.watch(connection) { connection.idle ? [] : [[connection.last_stream, Thread.main]] }
      status = serve_all
      raise @ending if @ending

      status
    ensure
      Hooks.thread_exit unless @connection.forked?
    end

    # Requests that wait here, and that are in work; threads; requests so far.
    def stats
      [@connection.waiting.size, @connection.idle ? 0 : 1, 1, @connection.requests]
    end

    private

    def serve_all
      connection = @connection
      until connection.lost || connection.leaving
        connection.idle = true
        interrupted(connection.take_interruption) if connection.interruption
        connection.settle_drain if connection.drain_asked
        if !connection.waiting.empty?
          frame(*connection.waiting.shift)
        elsif !connection.buffer.empty?
          fast_buffered(connection.buffer) || frame(*connection.next_frame)
        elsif (data = connection.receive)
          connection.idle = false
          fast(data) || connection.buffer << data
        else
          break
        end
        serve_measured if connection.growth
      end
      connection.faulty ? 1 : 0
    rescue Lost
      0
    rescue Fault => fault
      connection.fail(fault)
      1
    end

    # As the loop above, from LEAKS to its end. It waits and measures where nothing of a request has been on the stack.
    def serve_measured
      connection = @connection
      @service.forget
      connection.measure
      while connection.growth && !connection.lost && !connection.leaving
        connection.idle = true
        interrupted(connection.take_interruption) if connection.interruption
        connection.settle_drain if connection.drain_asked
        connection.sock.wait_readable if connection.buffer.empty?
        last = connection.last_stream
        Growth.below { frame(*connection.next_frame) }
        connection.due unless connection.last_stream == last
        @service.forget
        connection.measure
      end
    end

    # The whole REQUEST at the front of a read is taken apart where it stands; nearly every read is one. The bytes after it
    # wait in the buffer, where later reads within this request find them first. False: it does not start with a whole REQUEST.
    def fast(data)
      flags, id, text_length, body_length, count, last = whole_request(data)
      return false if flags.nil?

      # Copies: the string of the read is used again. `byteslice` would make the two share their memory.
      more = data.bytesize > last
      strings = split_at_once(data, count) unless more || body_length != 0
      strings ||= data.unpack1("@24a#{text_length}").split("\0", -1)
      return false if strings.size != count

      body = body_length == 0 ? Wire::NOTHING : data.unpack1("@#{24 + text_length}a#{body_length}")
      @connection.buffer << data.unpack1("@#{last}a*") if more
      serve(flags, id, strings, body)
    end

    # The `count` strings of a REQUEST that ends `data`, in one call with half the instructions of `split`. nil: there are more or fewer, or the last is
    # empty, which looks the same.
    def split_at_once(data, count)
      # The `C` finds a byte after the last of them, or nil.
      strings = data.unpack(count <= MAX_REMEMBERED ? (@patterns[count] ||= pattern(count)) : pattern(count))
      rest = strings.pop
      strings if rest.nil? && !strings.last.empty? && data.getbyte(-1) != 0
    end

    def pattern(count)
      "@24#{"Z*" * count}C"
    end

    # As `fast`, for what has waited in the buffer.
    def fast_buffered(data)
      flags, id, text_length, body_length, count, last = whole_request(data)
      return false if flags.nil?

      strings = data.byteslice(24, text_length).split("\0", -1)
      return false if strings.size != count

      @connection.buffer = data.byteslice(last, data.bytesize)
      serve(flags, id, strings, data.byteslice(24 + text_length, body_length))
    end

    # The parts of the head of a REQUEST that is all there and has nothing wrong with it; nil otherwise: the other way, frame by
    # frame, finds the words for it.
    def whole_request(data)
      size = data.bytesize
      return nil if size <= Wire::REQUEST_HEAD_SIZE

      # Each number costs 500 instructions: the first is the length, type and flags, and half of the stream.
      head, id, count, text_length = data.unpack(Wire::REQUEST_NUMBERS)
      length = head / 0x1_0000_0000
      flags = head / 0x1_0000 % 0x1_0000 - (Wire::REQUEST * 0x100)
      id += head % 0x1_0000 * 0x1_0000
      last = Wire::HEAD_SIZE + length
      body_length = length - text_length - 14
      return nil if flags < 0 || flags > 0x7F || size < last || length > Wire::MAX_PAYLOAD ||
                    flags & 0x11 == Wire::WEBSOCKET || id == 0 || body_length < 0 || body_length > Wire::MAX_CHUNK ||
                    count < Wire::FIXED_STRINGS + ((flags & Wire::USER) / 32) || count % 2 == 0

      [flags, id, text_length, body_length, count, last]
    end

    # Does what any frame says.
    def frame(kind, flags, id, payload)
      @connection.idle = false
      if kind == Wire::REQUEST
        _, strings, body = Wire.decode_request(payload, flags)
        serve(flags, id, strings, body)
      else
        @connection.handle(kind, flags, id, payload)
      end
    end

    def serve(flags, id, strings, body)
      connection = @connection
      connection.idle = false
      ending = @service.serve(flags, connection.begin_stream(id, flags & Wire::END_BODY != 0), strings, body)
      connection.end_stream
      connection.send_samples if connection.profile.pending
      @leaks.undo if @leaks.noted?
      end_for(ending) if ending
      true
    end

    # No more requests than those that are here.
    def end_for(error)
      @ending ||= error
      @connection.ask_to_drain
    end

    # What a signal handler raised, and no code of the application could rescue any more.
    def interrupted(error)
      return end_for(error) if Keepwarm.ends_process?(error)

      Log.exception(error)
    end
  end
end

# frozen_string_literal: true

require "keepwarm/serial"
require "keepwarm/service"

module Keepwarm
  # The loop of a worker that serves one request at a time: a read, the application, a write.
  class SerialWorker
    def initialize(connection, service, leaks)
      @connection = connection
      @service = service
      @leaks = leaks
    end

    # Takes requests until Keepwarm says DRAIN or goes away; gives the exit status, or raises the `SystemExit` of the
    # application.
    def serve_forever
      connection = @connection
      until connection.lost || connection.leaving
        connection.idle = true
        connection.settle_drain if connection.drain_asked
        if connection.waiting.empty? && connection.buffer.empty?
          data = connection.receive
          connection.idle = false
          break if data.nil?

          fast(data)
        else
          frame = connection.waiting.shift || connection.next_frame
          connection.idle = false
          frame(*frame)
        end
      end
      connection.faulty ? 1 : 0
    rescue Lost
      0
    rescue Fault => fault
      connection.fail(fault)
      1
    end

    private

    # A read that is one whole REQUEST, which nearly all are, is taken apart where it stands; others go through the buffer.
    def fast(data)
      size = data.bytesize
      if size > Wire::REQUEST_HEAD_SIZE
        length, kind, flags, id, _, count, text_length = data.unpack(Wire::REQUEST_HEAD)
        body_length = length - text_length - 14
        if kind == Wire::REQUEST && size == length + Wire::HEAD_SIZE && length <= Wire::MAX_PAYLOAD && flags & ~0x3F == 0 &&
           flags & 0x11 != Wire::WEBSOCKET && id != 0 && body_length.between?(0, Wire::MAX_CHUNK)
          # A copy: the string of the read is used again. `byteslice` would make the two share their memory.
          text = data.unpack1("@24a*")
          body = Wire::NOTHING
          if body_length != 0
            body = text.byteslice(text_length, body_length)
            text = text.byteslice(0, text_length)
          end
          strings = text.split("\0", -1)
          if strings.size == count
            Wire.check_request(count)
            return serve(flags, id, strings, body)
          end
        end
      end
      @connection.buffer << data # the other way finds the words for what is wrong with it
    end

    # Does what any frame says.
    def frame(kind, flags, id, payload)
      if kind == Wire::REQUEST
        _, strings, body = Wire.decode_request(payload)
        serve(flags, id, strings, body)
      else
        @connection.handle(kind, flags, id, payload)
      end
    end

    def serve(flags, id, strings, body)
      connection = @connection
      ending = @service.serve(flags, connection.begin_stream(id, flags & Wire::END_BODY != 0), strings, body)
      connection.end_stream
      @leaks.undo if @leaks.noted?
      return if ending.nil?

      connection.refuse_waiting
      raise ending
    end
  end
end

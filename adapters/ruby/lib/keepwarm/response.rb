# frozen_string_literal: true

require "monitor"

require "keepwarm/body_stream"
require "keepwarm/chunked_coding"
require "keepwarm/fields"
require "keepwarm/log"
require "keepwarm/wire"

module Keepwarm
  # The response of an application on its way to the wire. One object for all requests that a thread serves one after the other.
  #
  # `begin`, then `deliver`; `abort` instead when the application fails. `begun`: its fields have left. `over`: the stream has
  # ended.
  class Response
    FILE_PIECE = 4 * Wire::MAX_CHUNK

    # `detached`: somebody may still hold on to this object; the next request needs another.
    # `left`: the application has taken the connection over.
    attr_reader :connection, :stream, :begun, :over, :detached, :left

    def initialize(connection, rack)
      @connection = connection
      @fields = Fields.new(lines: rack[0] < 3)
      @out = String.new(capacity: 16_384, encoding: Encoding::BINARY)
      @stream = nil
      @begun = false
      @over = true
      @head_only = @bodiless = false
      @status = @sent = 0
      @length = @coding = nil
      @detached = @left = false
    end

    # A new request. `head_only`: its method is HEAD, so that no body goes out.
    def begin(stream, head_only)
      @stream = stream
      @head_only = head_only
      @begun = @over = @left = false
    end

    # Sends what the application returned, each part as it comes. Does not call the body's `close`. `input`: the request's
    # body, which a callable body may read.
    def deliver(status, headers, body, input)
      @status = status
      fields = @fields
      fields.take(headers, status)
      @length = fields.length
      @coding = fields.chunked ? ChunkedCoding.new : nil
      @bodiless = @head_only || status == 204 || status == 304
      if body.instance_of?(Array) && !fields.hijack
        whole(body)
      elsif @bodiless
        first("", true)
      elsif fields.hijack
        stream_to(fields.hijack, input)
      else
        parts(body, input)
      end
    end

    # Holds nothing that the application gave for the last request.
    def forget
      @fields.clear
      @coding = nil
    end

    # Whether the response to this request has not begun.
    def open_for?(id)
      @stream.id == id && !@begun && !@over && !@stream.gone
    end

    # The application responds by itself: nothing of its response comes here.
    def leave
      @begun = @left = true
      ends
    end

    # Ends the stream without a complete response: 500 if its fields have not left, a cut connection otherwise.
    def abort(code, reason)
      @connection.held { cut(code, reason) }
    end

    # Sends a block at once. False when no further one is wanted.
    def put(block)
      @connection.held { part(block) }
    end

    # Sends the fields, if they have not left.
    def flush
      @connection.held { first("", @length == 0) } unless @begun # rubocop:disable Style/NumericPredicate -- it may be nil
    end

    # There is no more of the body.
    def finish
      @connection.held { complete }
    end

    private

    def cut(code, reason)
      return if @over

      ends
      @connection.send(Wire.reset(@stream.id, code, reason))
    end

    def part(block)
      unless block.is_a?(String)
        raise TypeError, "a part of the body is #{block.class} instead of String: #{block.inspect[0, 80]}"
      end
      block = decoded(block) if @coding
      return true if block.empty?
      return continue_with(block) if @begun

      size = block.bytesize
      length = @length
      first(length && size > length ? block.byteslice(0, length) : block, length && size >= length)
      too_long if length && size > length
      !@stream.gone
    end

    def complete
      return if @over
      return abort(Wire::CANCELLED, "") if @stream.gone
      return finish_unchunked if @coding && !@coding.rest.empty?
      return short(@coding.missing) if @coding && !@coding.ended?
      return too_short if @length && (@begun ? @sent : 0) < @length
      return first("", true) unless @begun

      ends
      @connection.send(Wire.frame(Wire::DATA, Wire::END_BODY, @stream.id))
    end

    # A body that has turned out not to be chunked, with what was held of it.
    def finish_unchunked
      held = @coding.rest
      @coding = nil
      put(held)
      finish
    end

    # The stream's end leaves next.
    def ends
      @over = @stream.responded = true
    end

    # A body that is all here.
    def whole(parts)
      return without_body(parts) if @bodiless

      body = parts.size == 1 ? parts[0] : joined(parts)
      if @coding
        body = ChunkedCoding.decode(body)
        @coding = nil
      end
      if body.instance_of?(String) && body.bytesize <= Wire::MAX_CHUNK && (@length.nil? || @length == body.bytesize)
        @begun = @over = @stream.responded = true
        return @connection.send_now(response(body, Wire::END_BODY))
      end
      compute_length(body.bytesize) if @length.nil? && body.is_a?(String)
      put(body)
      finish
    end

    # RFC 9110 §9.3.2: HEAD has the length that GET would have. An empty body does not tell: handlers of HEAD often omit the body.
    def without_body(parts)
      if @head_only && @status != 204 && @status != 304 && @length.nil? && @coding.nil? && parts.all?(String)
        size = parts.sum(&:bytesize)
        compute_length(size) if size.positive?
      end
      first("", true)
    end

    # The application gave no length, but its body has one.
    def compute_length(length)
      @fields.add_computed_length(length)
      @length = length
    end

    def joined(parts)
      parts.each_with_object(String.new(encoding: Encoding::BINARY)) do |part, all|
        raise TypeError, "a part of the body is #{part.class} instead of String" unless part.is_a?(String)

        all << part.b
      end
    end

    # The plain bytes of a block of a body that the application chunks itself. A thread of its own may write it: the response ends here.
    def decoded(block)
      @coding.decode(block)
    rescue ChunkedCoding::Invalid => error
      abort(Wire::APP_ERROR, error.message)
      raise
    end

    # A body that comes in parts.
    def parts(body, input)
      if body.respond_to?(:to_path) && (file = opened(body.to_path))
        file(file)
      elsif body.respond_to?(:to_ary) && (parts = body.to_ary)
        whole(parts)
      elsif body.respond_to?(:each)
        each(body)
      elsif body.respond_to?(:call)
        stream_to(body, input)
      else
        raise TypeError, "the body is #{body.class}, which has neither `each` nor `call`"
      end
    end

    # A body may keep the block that it is given, and call it from its own thread: after the end of `each` the block raises, so that it cannot write
    # into the response to another request, which may have the same object.
    def each(body)
      lock = Monitor.new
      open = true
      @connection.admitted do
        body.each do |block|
          lock.synchronize do
            raise IOError, "the response has ended" unless open

            open = put(block)
          end
          break unless open
        end
      end
      lock.synchronize { finish }
    ensure
      lock.synchronize { open = false }
    end

    # The file of a body that has a path; nil when it cannot be read here, so that the body itself is asked.
    def opened(path)
      file = File.open(path, "rb")
      return file if file.stat.file?

      file.close
      nil
    rescue SystemCallError, TypeError
      nil
    end

    # A file, read in pieces. Its size is the length of the response.
    def file(file)
      size = file.size
      compute_length(size) if @length.nil? && !@coding
      while (piece = file.read(FILE_PIECE, piece))
        break unless put(piece)
        break if @over
      end
      finish
    ensure
      file.close
    end

    # A callable body, or a partial hijack: it writes by itself, now or later in a thread of its own.
    def stream_to(body, input)
      stream = BodyStream.new(self, input)
      flush
      @connection.admitted { body.call(stream) }
      return if stream.ended?

      # A reference to the stream keeps this response alive.
      @detached = true
      @connection.linger(@stream, stream)
      stream.cut
    ensure
      stream&.detach
    end

    # The response's fields, and the beginning of its body or all of it.
    def first(body, last)
      size = body.bytesize
      @begun = true
      @sent = size
      return rest(body, last) if size > Wire::MAX_CHUNK

      ends if last
      @connection.send(response(body, last ? Wire::END_BODY : 0))
    end

    def rest(body, last)
      @connection.send(response(body.byteslice(0, Wire::MAX_CHUNK), 0))
      more(body.byteslice(Wire::MAX_CHUNK, body.bytesize), last)
    end

    def response(body, flags)
      fields = @fields
      text = fields.text
      flags |= Wire::CLOSE_AFTER if fields.close
      size = text.bytesize
      id = @stream.id
      # As `Wire.response`. Each number costs 500 instructions, so there are three for seven. `@out` keeps its memory, which `clear` would free.
      [
        (8 + size + body.bytesize) * 0x1_0000_0000 + Wire::RESPONSE * 0x100_0000 + flags * 0x1_0000 + id / 0x1_0000, id % 0x1_0000,
        @status * 0x1_0000_0000_0000 + fields.count * 0x1_0000_0000 + size, text, body
      ].pack(Wire::RESPONSE_AGAIN, buffer: @out)
    end

    def continue_with(block)
      if @over
        too_long unless @stream.gone
        return false
      end
      @connection.poll
      last = false
      if @length
        left = @length - @sent
        last = block.bytesize >= left
        if block.bytesize > left
          block = block.byteslice(0, left)
          too_long
        end
      end
      @sent += block.bytesize
      more(block, last)
      !@over || last
    end

    # More of the body, under credit.
    def more(block, last)
      @stream.responded = last
      if @stream.gone || !@connection.send_data(@stream, block, last)
        abort(Wire::CANCELLED, "")
      else
        @over = last
      end
    end

    def too_short
      sent = @begun ? @sent : 0
      short("the body ended after #{sent} of the #{@length} bytes that Content-Length promised")
    end

    def short(reason)
      Log.write("the application's response is too short: #{reason}")
      abort(Wire::TOO_SHORT, reason)
    end

    def too_long
      Log.warn_once(
        :too_long, "the application's response is longer than its Content-Length of #{@length}; the rest is cut off"
      )
    end
  end
end

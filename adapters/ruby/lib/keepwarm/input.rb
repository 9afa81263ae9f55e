# frozen_string_literal: true

require "keepwarm/errors"
require "keepwarm/wire"

module Keepwarm
  # `rack.input` of a request without a body. One object for all of them.
  class NoInput
    def read(length = nil, buffer = nil)
      buffer&.clear
      length.nil? || length.zero? ? buffer || +"" : nil
    end

    def gets(*)
      nil
    end

    def each
      block_given? ? self : to_enum(:each)
    end

    def rewind
      0
    end

    def size
      0
    end

    def eof?
      true
    end

    def close
      nil
    end

    def binmode
      self
    end

    def external_encoding
      Encoding::BINARY
    end
  end

  # `rack.input` of a body that did not come whole with its request: it is read as the application asks for it, once. The first
  # read is what sends `100 Continue` (spec/wire.md §4).
  class Input
    def initialize(connection, stream, first, expects)
      @connection = connection
      @stream = stream
      @id = stream.id
      @part = first # what came and was not read
      @free = first.bytesize # bytes that came with the REQUEST, which are not under credit (§6)
      @expects = expects
      @closed = false
    end

    # Requests the body, once; not after the end of the response, when none of it will arrive (spec/wire.md §5).
    def send_continue
      return unless @expects

      @connection.undivided do
        @connection.synchronize do
          next unless @stream.id == @id && !@stream.responded

          @expects = false
          @connection.send(Wire.frame(Wire::WANT, 0, @id))
        end
      end
    end

    # IO#read: with a length, at most that number of bytes, nil at the end; without one, the rest.
    def read(length = nil, buffer = nil)
      raise ArgumentError, "negative length #{length} given" if length&.negative?

      got = buffer ? buffer.clear.force_encoding(Encoding::BINARY) : String.new(encoding: Encoding::BINARY)
      return got if length&.zero?

      while length.nil? || got.bytesize < length
        piece = take(length && (length - got.bytesize))
        break if piece.nil?

        got << piece
      end
      length && got.empty? ? nil : got
    end

    # IO#readpartial: what is here, at least a byte; EOFError at the end.
    def readpartial(length, buffer = nil)
      piece = take(length)
      raise EOFError, "end of file reached" if piece.nil?

      buffer ? buffer.replace(piece) : piece
    end

    # The next line with its end, nil after the last.
    def gets(separator = $/)
      return read.then { |rest| rest.empty? ? nil : rest } if separator.nil?

      line = String.new(encoding: Encoding::BINARY)
      while more?
        found = @part.index(separator[-1])
        line << take(found && found + 1)
        return line if line.end_with?(separator)
      end
      line.empty? ? nil : line
    end

    def each
      return to_enum(:each) unless block_given?

      while (line = gets)
        yield line
      end
      self
    end

    def eof?
      !more?
    end

    def close
      @closed = true
      nil
    end

    def closed?
      @closed
    end

    def binmode
      self
    end

    def external_encoding
      Encoding::BINARY
    end

    private

    # At most `length` of the next bytes, nil at the end.
    def take(length)
      return nil unless more?

      if length.nil? || length >= @part.bytesize
        piece = @part
        @part = Wire::NOTHING
      else
        piece = @part.byteslice(0, length)
        @part = @part.byteslice(length, @part.bytesize)
      end
      paid(piece.bytesize)
      piece
    end

    # Whether there is more, waited for.
    def more?
      raise IOError, "closed stream" if @closed

      @part = next_part if @part.empty?
      !@part.empty?
    end

    def paid(size)
      if @free.positive?
        @free -= size
      elsif @stream.id == @id
        @connection.consumed(@stream, size)
      end
    end

    def next_part
      @connection.synchronize do
        loop do
          raise IOError, "rack.input was read after the response was complete" if @stream.id != @id

          part = @stream.parts.shift
          return part if part && !part.empty?
          next if part
          raise ClientDisconnected, "the client disconnected before its body was complete" if @stream.body_lost
          return Wire::NOTHING if @stream.body_ended
          raise IOError, "the rest of rack.input is not available: the response has ended" if @stream.responded

          send_continue
          @connection.wait(@stream)
        end
      end
    end
  end
end

# frozen_string_literal: true

module Keepwarm
  # Decodes a body that the application has chunked itself (RFC 9112 §7.1). Strict: what another parser might read differently raises. Chunk
  # extensions and trailers are dropped.
  class ChunkedCoding
    class Invalid < StandardError; end

    LINE = 8_192 # bytes of a chunk's head, or of a trailer
    CHUNK = /\A(\h{1,15})[ \t]*(?:;[^\r\n\0]*)?\z/n.freeze
    TRAILER = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*\z/n.freeze
    private_constant :LINE, :CHUNK, :TRAILER

    # The whole of a body that is all here.
    def self.decode(body)
      raise TypeError, "a part of the body is #{body.class} instead of String" unless body.is_a?(String)

      coding = new
      plain = coding.decode(body)
      raise Invalid, coding.missing unless coding.ended?

      plain
    end

    def initialize
      @state = :head
      @left = 0 # bytes of the chunk that have not come
      @held = "".b # the beginning of a line
    end

    # The last chunk and the trailers have come.
    def ended?
      @state == :ended && @held.empty?
    end

    # What a body that stops here lacks.
    def missing
      "the body, which the application chunked itself, ended before its last chunk"
    end

    # The plain bytes of a further block. Raises `Invalid`, and again at each later call.
    def decode(block)
      input = @held << block.b
      plain = "".b
      at = 0
      while at < input.bytesize
        if @state == :data
          piece = input.byteslice(at, @left)
          plain << piece
          @left -= piece.bytesize
          @state = :data_end if @left.zero?
          at += piece.bytesize
        else
          ending = input.index("\r\n", at)
          break if ending.nil? && input.bytesize - at <= LINE && @state != :ended

          line(ending ? input.byteslice(at, ending - at) : nil)
          at = ending + 2
        end
      end
      @held = input.byteslice(at, input.bytesize)
      plain
    end

    private

    def line(line)
      case @state
      when :head then head(line)
      when :data_end then line == "" ? @state = :head : refuse("a chunk that is longer than its size", line)
      when :trailers
        @state = :ended if line == ""
        refuse("a trailer", line) unless @state == :ended || line&.match?(TRAILER)
      else refuse("bytes after the last chunk", line)
      end
    end

    def head(line)
      size = line && line[CHUNK, 1]
      refuse("the size of a chunk", line) if size.nil?

      @left = size.to_i(16)
      @state = @left.zero? ? :trailers : :data
    end

    def refuse(what, line)
      @state = :refused
      shown = line && line.byteslice(0, 80).inspect
      raise Invalid, "the body is not chunked as its Transfer-Encoding says: #{what}: #{shown || "a line above #{LINE} bytes"}"
    end
  end
end

# frozen_string_literal: true

module Keepwarm
  # Decodes a body that the application has chunked itself (RFC 9112 §7.1). Strict: what another parser might read differently raises. Chunk
  # extensions and trailers are dropped. A body that does not even begin like a chunk is not chunked, whatever its fields say: it passes as it is.
  class ChunkedCoding
    class Invalid < StandardError; end

    LINE = 8_192 # bytes of a chunk's head, or of a trailer
    CHUNK = /\A(\h{1,15})[ \t]*(?:;[^\r\n\0]*)?\z/n.freeze
    TRAILER = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*\z/n.freeze
    BEGINS = /\A\h+[ \t]*[;\r\n]/n.freeze
    MAY_BEGIN = /\A\h{0,16}[ \t]{0,16}\z/n.freeze
    private_constant :LINE, :CHUNK, :TRAILER, :BEGINS, :MAY_BEGIN

    # The whole of a body that is all here.
    def self.decode(body)
      raise TypeError, "a part of the body is #{body.class} instead of String" unless body.is_a?(String)

      coding = new
      plain = coding.decode(body)
      plain << coding.rest
      raise Invalid, coding.missing unless coding.ended?

      plain
    end

    def initialize
      @state = :unknown
      @left = 0 # bytes of the chunk that have not come
      @held = "".b # the beginning of a line
    end

    # The last chunk and the trailers have come, or it is not chunked at all.
    def ended?
      %i[plain unknown].include?(@state) || (@state == :ended && @held.empty?)
    end

    # The body ends: what has been held because it may have been the beginning of a chunk.
    def rest
      @state == :unknown ? @held : "".b
    end

    # What a body that stops here lacks.
    def missing
      "the body, which the application chunked itself, ended before its last chunk"
    end

    # The plain bytes of a further block. Raises `Invalid`, and again at each later call.
    def decode(block)
      return block.b if @state == :plain

      input = @held << block.b
      recognize(input) if @state == :unknown
      return "".b if @state == :unknown
      return input if @state == :plain

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

    def recognize(input)
      if input.match?(BEGINS)
        @state = :head
      elsif !input.match?(MAY_BEGIN)
        @state = :plain
      end
    end

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
      raise Invalid, "the body is not chunked as its Transfer-Encoding says: #{what}: #{shown || "a line over #{LINE} bytes"}"
    end
  end
end

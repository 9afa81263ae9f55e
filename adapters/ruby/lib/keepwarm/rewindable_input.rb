# frozen_string_literal: true

require "stringio"

module Keepwarm
  # `rack.input` as Rack 2 wants it, which can be read again: what an `Input` gives is kept, first in memory, then in a file
  # that has no name, so that it goes with this process however that ends.
  class RewindableInput
    MEMORY = 262_144 # bytes; a body that is larger goes to a file
    PIECE = 65_536

    def initialize(source)
      @source = source
      @store = StringIO.new(String.new(encoding: Encoding::BINARY))
      @size = 0
      @complete = false
    end

    def send_continue
      @source.send_continue
    end

    def read(length = nil, buffer = nil)
      fetch(length && (@store.pos + length))
      @store.read(length, *buffer)
    end

    def gets(separator = $/)
      begin_at = @store.pos
      loop do
        line = @store.gets(separator)
        return line if @complete || (separator && line&.end_with?(separator))

        # Again from the beginning of the line, with more of it. The stored part at least doubles each time.
        @store.pos = begin_at
        fetch(@size + [PIECE, @size - begin_at].max)
      end
    end

    def each
      return to_enum(:each) unless block_given?

      while (line = gets)
        yield line
      end
      self
    end

    def rewind
      @store.pos = 0
    end

    def size
      fetch(nil)
      @size
    end

    def eof?
      fetch(@store.pos + 1)
      @store.pos >= @size
    end

    def pos
      @store.pos
    end

    def close
      @store.close unless @store.closed?
    end

    def closed?
      @store.closed?
    end

    def binmode
      self
    end

    def external_encoding
      Encoding::BINARY
    end

    private

    # Lets the body come until `enough` bytes of it are kept; all of it, when that is nil.
    def fetch(enough)
      until @complete || (enough && @size >= enough)
        piece = @source.read(PIECE)
        return @complete = true if piece.nil?

        keep(piece)
      end
    end

    def keep(piece)
      at = @store.pos
      spill if @size + piece.bytesize > MEMORY && @store.is_a?(StringIO)
      @store.seek(@size)
      @store.write(piece)
      @size += piece.bytesize
      @store.seek(at)
    end

    def spill
      file = nameless_file
      file.write(@store.string)
      @store = file
    end

    def nameless_file
      require "tmpdir"
      begin
        file = File.open(Dir.tmpdir, File::RDWR | File::TMPFILE, 0o600)
      rescue SystemCallError # a file system that has no such files
        require "tempfile"
        file = Tempfile.create("keepwarm", binmode: true)
        File.unlink(file.path)
      end
      file.binmode
      file
    end
  end
end

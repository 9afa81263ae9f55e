# frozen_string_literal: true

require "monitor"

require "keepwarm/errors"
require "keepwarm/wire"

module Keepwarm
  # What a callable body (Rack 3) and a partial hijack get: the response to write to, and the request's body to read from.
  #
  # The application may write in its own thread. That thread or the one waiting for it ends the response, whichever is first, and only once.
  class BodyStream
    def initialize(response, input)
      @response = response
      @input = input
      @reading = @writing = true
      @on_close = nil
      @lock = Monitor.new
    end

    # Sends each string at once. Raises `ClientDisconnected` when nobody waits for it.
    def write(*strings)
      raise IOError, "not opened for writing" unless @writing

      strings.sum do |string|
        string = string.to_s
        sent = @lock.synchronize { @response.put(string) }
        raise ClientDisconnected, "the client disconnected" if !sent && @response.stream.gone

        string.bytesize
      end
    end

    def <<(string)
      write(string)
      self
    end

    # What was written has left already.
    def flush
      self
    end

    def read(length = nil, buffer = nil)
      raise IOError, "not opened for reading" unless @reading

      @input.read(length, buffer)
    end

    # What has not come yet is waited for. Raises `EOFError` at the end, as a socket does.
    def read_nonblock(length, buffer = nil, exception: true) # rubocop:disable Lint/UnusedMethodArgument -- a socket's
      read(length, buffer) || raise(EOFError, "end of file reached")
    end

    # Waits for the client as `write` does.
    def write_nonblock(string, exception: true) # rubocop:disable Lint/UnusedMethodArgument -- a socket's
      write(string)
    end

    def close_read
      @reading = false
      closed_now
    end

    # The response ends here.
    def close_write
      @lock.synchronize do
        return unless @writing

        @writing = false
        @response.finish
      end
      closed_now
    end

    def close
      @reading = false
      close_write
      closed_now
    end

    def closed?
      !@reading && !@writing
    end

    # Whether it is closed and the response has ended: another thread that closes it may not be through with that.
    def ended?
      @lock.synchronize { closed? }
    end

    def sync
      true
    end

    def sync=(_on); end

    # Calls the block when it is closed; at once if it is.
    def on_close(&block)
      @on_close = block
      closed_now
    end

    # Nobody waits for the rest.
    def cut
      @lock.synchronize { @response.abort(Wire::CANCELLED, "") }
    end

    # The response is over, however it ended.
    def detach
      @reading = @writing = false
    end

    private

    def closed_now
      return unless closed?

      action = @on_close
      @on_close = nil
      action&.call
      nil
    end
  end
end

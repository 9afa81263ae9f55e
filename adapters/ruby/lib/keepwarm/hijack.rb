# frozen_string_literal: true

require "socket"

require "keepwarm/errors"

module Keepwarm
  # Rack's full hijack, `env["rack.hijack"]`: the application handles one request itself, in HTTP/1.1, on its own socket. What it writes goes to the
  # client, and after a `101` what the client sends comes to it. The worker is free for other requests at once (spec/wire.md §5, HIJACK).
  class Hijack
    HEAD_END = "\r\n\r\n"
    private_constant :HEAD_END

    # Every request has one, and Ruby keeps three variables in the object itself: a fourth costs an allocation, so `@io` waits until it is needed.
    def initialize(response, id, env)
      @response = response
      @id = id
      @env = env
    end

    # The socket; the same at every call. Raises `IOError` when the response has begun or is over, `ClientDisconnected` when nobody waits for it.
    def call
      @io || take_over
    end

    private

    def take_over
      connection = @response.connection
      ours, theirs = UNIXSocket.pair
      connection.undivided do
        connection.synchronize do
          raise IOError, "too late for rack.hijack: the response has begun" unless @response.open_for?(@id)

          @response.leave
          connection.send(Wire.frame(Wire::HIJACK, 0, @id), theirs)
        end
      end
      theirs.close
      wait_for_keepwarm(ours)
      connection.hijacked(ours)
      @env["rack.hijack_io"] = @io = ours
    end

    # Keepwarm begins as with any server, by sending it the request; the application has that already. Nothing follows before it responds.
    def wait_for_keepwarm(socket)
      head = +""
      head << socket.readpartial(65_536) until head.end_with?(HEAD_END)
    rescue EOFError, SystemCallError
      socket.close
      raise ClientDisconnected, "the client disconnected"
    end
  end
end

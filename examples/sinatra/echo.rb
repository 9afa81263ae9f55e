# frozen_string_literal: true

# A WebSocket that echoes each message, on a connection taken over from Rack (`rack.hijack`), by the gem `websocket-driver`.
module Echo
  # The driver asks for its environment, its address, and writes.
  Connection = Struct.new(:env, :io) do
    def url
      "#{env["rack.url_scheme"] == "https" ? "wss" : "ws"}://#{env["HTTP_HOST"]}#{env["PATH_INFO"]}"
    end

    def write(data)
      io.write(data)
    end
  end

  def self.call(env)
    require "websocket/driver"
    return [400, { "content-type" => "text/plain" }, ["a WebSocket is expected\n"]] unless WebSocket::Driver.websocket?(env)

    io = env["rack.hijack"].call
    Thread.new { serve(Connection.new(env, io)) }
    [-1, {}, []]
  end

  def self.serve(connection)
    driver = WebSocket::Driver.rack(connection)
    driver.on(:message) { |event| event.data.is_a?(String) ? driver.text(event.data) : driver.binary(event.data) }
    open = true
    driver.on(:close) { open = false }
    driver.start
    driver.parse(connection.io.readpartial(65_536)) while open
  rescue EOFError, SystemCallError
    nil
  ensure
    connection.io.close
  end
end

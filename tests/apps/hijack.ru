# frozen_string_literal: true

# Takes connections over (Rack's full hijack), and responds on them by itself.

require "digest/sha1"

ACCEPT = ->(key) { [Digest::SHA1.digest("#{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")].pack("m0") }

HIJACKS = {
  # Bytes back as they came, behind a `101`.
  "/echo" => lambda do |io, env|
    accept = ACCEPT.call(env["HTTP_SEC_WEBSOCKET_KEY"])
    io.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: #{env["HTTP_UPGRADE"]}\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: #{accept}\r\n\r\n")
    loop { io.write(io.readpartial(65_536)) }
  end,
  "/plain" => ->(io, env) { io.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\n#{env["REQUEST_METHOD"].ljust(6)}") },
  "/close-delimited" => lambda do |io, _|
    io.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    5.times { |number| io.write("part #{number}\n") }
  end,
  "/long" => ->(io, _) { io.write("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n", "x" * 3_000_000) },
  "/short" => ->(io, _) { io.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc") },
  "/silent" => ->(_, _) {},
  "/garbage" => ->(io, _) { io.write("this is no HTTP\r\n\r\n") },
  "/never" => ->(io, _) { io.read }
}.freeze

run lambda { |env|
  action = HIJACKS[env["PATH_INFO"]]
  next [200, { "content-type" => "text/plain" }, ["worker #{$$}"]] if action.nil?

  body = env["rack.input"].read
  io = env["rack.hijack"].call
  Thread.new do
    action.call(io, env)
  rescue EOFError, SystemCallError
    nil
  ensure
    io.close
  end
  [-1, { "x-body" => body.to_s }, []]
}

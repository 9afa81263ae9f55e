# frozen_string_literal: true

# The test application for Rack: each path is one way in which an application responds, as in wsgi_app.py.

require "digest/sha2" # "digest" alone loads it at its first use, which two threads must not do at once
require "json"

SILENCE = 0.03

# Parts that come as they are made.
class Parts
  def initialize(&parts)
    @parts = parts
  end

  def each(&each_part)
    @parts.call(each_part)
  end
end

def text(status, body, fields = {})
  [status, { "Content-Type" => "text/plain", "Content-Length" => body.bytesize.to_s }.merge(fields), [body]]
end

def json(thing)
  body = JSON.generate(thing)
  [200, { "Content-Type" => "application/json", "Content-Length" => body.bytesize.to_s }, [body]]
end

# Bytes, one a character.
def shown(bytes)
  bytes.dup.force_encoding("ISO-8859-1").encode("UTF-8")
end

def digest(input)
  size = 0
  sha = Digest::SHA256.new
  while (block = input.read(65_536))
    size += block.bytesize
    sha << block
  end
  json("length" => size, "sha256" => sha.hexdigest)
end

# Responses that come after the body was read.
AFTER_BODY = {
  "/pong" => ->(_, _) { text(200, "pong") },
  "/list" => ->(_, _) { [200, { "Content-Type" => "text/plain" }, ["pong"]] },
  "/empty" => ->(_, _) { [200, {}, []] },
  "/short" => ->(_, _) { [200, {}, Parts.new { |part| %w[po ng].each(&part) }] },
  "/long" => ->(_, _) { [200, {}, Parts.new { |part| 50.times { part.call("x" * 4096) } }] },
  "/silent" => lambda do |_, _|
    [200, {}, Parts.new do |part|
      part.call("first,")
      sleep SILENCE
      part.call("second")
    end]
  end,
  "/204" => ->(_, _) { [204, {}, []] },
  "/204-length" => ->(_, _) { [204, { "Content-Length" => "0", "Content-Type" => "text/plain" }, []] },
  "/204-body" => ->(_, _) { [204, { "Content-Length" => "4" }, ["body"]] },
  "/304" => ->(_, _) { [304, { "ETag" => '"1"' }, []] },
  "/304-length" => ->(_, _) { [304, { "ETag" => '"1"', "Content-Length" => "0" }, []] },
  "/205" => ->(_, _) { [205, {}, []] },
  "/205-body" => ->(_, _) { [205, { "Content-Length" => "4" }, ["body"]] },
  "/hop" => lambda do |_, _|
    text(200, "pong", "Connection" => "keep-alive, x-private", "X-Private" => "1", "Keep-Alive" => "timeout=1, max=1",
                      "Transfer-Encoding" => "identity", "Proxy-Connection" => "keep-alive", "X-Kept" => "1")
  end,
  "/chunked-itself" => ->(_, _) { [200, { "Transfer-Encoding" => "chunked" }, ["pong"]] },
  "/close" => ->(_, _) { text(200, "pong", "Connection" => "Close") },
  "/date" => ->(_, _) { text(200, "pong", "Date" => "Sun, 06 Nov 1994 08:49:37 GMT", "Server" => "app/1") },
  "/echo" => ->(env, body) { json(env.select { |_, value| value.is_a?(String) }.transform_values { |value| shown(value) }.merge("body" => shown(body))) },
  "/sleep" => ->(env, _) { sleep(Rack::Utils.parse_query(env["QUERY_STRING"])["ms"].to_f / 1000) && text(200, "pong") }
}.freeze

# Applications that read the body themselves, or not at all.
HANDLERS = {
  "/unread" => ->(_) { text(403, "no") },
  "/raise" => ->(_) { raise "before it reads" },
  "/digest" => ->(env) { digest(env["rack.input"]) },
  "/explicit" => lambda do |env|
    env["keepwarm.send_continue"].call
    digest(env["rack.input"])
  end,
  "/unicorn" => lambda do |env|
    next [100, {}, []] if env["HTTP_EXPECT"]

    text(200, env["rack.input"].read.bytesize.to_s)
  end
}.freeze

run(lambda do |env|
  handler = HANDLERS[env["PATH_INFO"]]
  next handler.call(env) if handler

  after = AFTER_BODY[env["PATH_INFO"]]
  after ? after.call(env, env["rack.input"].read) : [404, { "Content-Length" => "0", "X-App" => "rack" }, []]
end)

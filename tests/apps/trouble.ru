# frozen_string_literal: true

# As trouble_app.py, for Rack: it keeps a book of what it does, and does what it is asked to.

require "zlib"

# What the parts below have in common; a configuration of Rack has no methods of its own that a class could call.
module Trouble
  BOOK = "#{ENV.fetch("DIR")}/book"
  PART = 3_000

  module_function

  def note(kind, asked)
    line = "#{kind} #{asked["id"]} #{$$}\n"
    File.open(BOOK, "a") { |book| book.syswrite(line) }
  end

  def failure(asked)
    raise "request #{asked["id"]} was to fail"
  end

  def parts_of(path, asked)
    parts = Array.new(asked["n"].to_i) { "#{asked["id"]};" * (PART / (asked["id"].size + 1)) }
    path == "/large" ? [parts.join] : parts
  end

  # What came in a form: its field, and the size and sum of its file.
  def form(env, name)
    found = Rack::Request.new(env).POST
    bytes = found["file"][:tempfile].read
    "#{name} #{found["field"]} #{bytes.bytesize} #{Zlib.crc32(bytes)}"
  end

  def body_of(path, asked, env)
    name = asked["id"]
    case path
    when "/form" then [form(env, name)]
    when "/upload" then env["rack.input"].read.then { |bytes| ["#{name} #{bytes.bytesize} #{Zlib.crc32(bytes)}"] }
    when "/stream", "/large", "/late" then parts_of(path, asked)
    when "/empty" then []
    else [name]
    end
  end
end

# What is done before the response, by path; nothing where there is no entry.
DEEDS = {
  "/die" => ->(_) { Process.kill(:KILL, $$) && sleep },
  "/leave" => ->(_) { exit!(3) },
  "/exit" => ->(_) { exit(4) },
  "/raise" => ->(asked) { Trouble.failure(asked) }
}.freeze

# A body that comes in parts; `/late` ends badly behind the last but one.
class InParts
  def initialize(parts, path, asked)
    @parts = parts
    @path = path
    @asked = asked
  end

  def each
    @parts.each_with_index do |part, number|
      if number == @parts.size - 1
        Trouble.failure(@asked) if @path == "/late"
        Trouble.note("e", @asked)
      end
      yield part
    end
  end
end

use Rack::TempfileReaper

run(lambda do |env|
  path = env["PATH_INFO"]
  asked = Rack::Utils.parse_query(env["QUERY_STRING"])
  Trouble.note("b", asked)
  env["rack.input"].read unless %w[/early /upload /form].include?(path)
  DEEDS[path]&.call(asked)
  sleep(asked["ms"].to_f / 1000) if asked["ms"] != "0"
  parts = Trouble.body_of(path, asked, env)
  fields = { "X-Name" => asked["id"] }
  next [200, fields, InParts.new(parts, path, asked)] if %w[/stream /late].include?(path)

  Trouble.note("e", asked)
  next [204, fields, []] if path == "/empty"

  fields["Content-Length"] = parts.sum(&:bytesize).to_s
  [200, fields, parts]
end)

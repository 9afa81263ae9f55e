# frozen_string_literal: true

# The application of the tests: a route for each thing to be tested. It loads no Rack, so that it is served by the rules of
# Rack 3; `rack2.ru` runs it under Debian's Rack 2.

require "digest/sha2" # "digest" alone loads it at its first use, which two threads must not do at once
require "json"
require "stringio"
require "tempfile"

# What the tests ask for, by path.
module Routes
  CLOSED = []
  FINISHED = []

  class Parts
    def initialize(name, parts)
      @name = name
      @parts = parts
    end

    def each
      @parts.each do |part|
        part = part.call if part.respond_to?(:call)
        yield part
      end
      CLOSED << "#{@name} ran to its end"
    end

    def close
      CLOSED << @name
    end
  end

  class Endless
    def each
      loop { yield "x" * 1000 }
    ensure
      CLOSED << "each left"
    end

    def close
      CLOSED << "never ends"
    end
  end

  class FileBody
    attr_reader :to_path

    def initialize(path)
      @to_path = path
    end

    def each
      yield "from each"
    end

    def close
      CLOSED << "file"
    end
  end

  class ArrayBody < Parts
    def to_ary
      @parts
    end
  end

  LONG_CHUNK = "0123456789abcdef" * 12_500
  OWN_CHUNKS = {
    "plain" => "5\r\nhello\r\n6;name=\"value\"\r\n world\r\n0\r\n\r\n",
    "trailers" => "00B\r\nhello world\r\n0 ;x\r\nx-sum: 1\r\nx-empty:\r\n\r\n",
    "breaks" => "9\r\n\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n",
    "empty" => "0\r\n\r\n",
    "long" => "30D40\r\n#{LONG_CHUNK}\r\n0\r\n\r\n",
    "not chunked" => "hello world",
    "digits" => "abc",
    "nothing" => "",
    "bare feed" => "5\nhello\n0\n\n",
    "feed in extension" => "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "sign" => "+5\r\nhello\r\n0\r\n\r\n",
    "no size" => "5\r\nhello\r\n;\r\n\r\n",
    "too long" => "5\r\nhello!\r\n0\r\n\r\n",
    "huge" => "#{"f" * 16}\r\nhello\r\n0\r\n\r\n",
    "endless line" => "5;#{"a" * 9_000}",
    "trailer" => "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
    "more" => "5\r\nhello\r\n0\r\n\r\nHTTP",
    "no end" => "5\r\nhello\r\n0\r\n",
    "cut" => "5\r\nhel"
  }.transform_values(&:b).freeze

  module_function

  # Tries again after an error, and closes the stream.
  def write_all(stream, pieces)
    pieces.each do |piece|
      stream.write(piece)
    rescue StandardError => error
      warn error.message
    end
    stream.close
  end

  def text(body, status = 200, fields = {})
    [status, { "content-type" => "text/plain", "content-length" => body.bytesize.to_s }.merge(fields), [body]]
  end

  def json(thing)
    text(JSON.generate(thing))
  end

  def shown(env)
    strings = env.select { |_, value| [String, TrueClass, FalseClass, Integer, Array].include?(value.class) }
    strings = strings.transform_values { |value| value.is_a?(String) ? value.dup.force_encoding("ISO-8859-1").encode("UTF-8") : value }
    strings.merge("rack.input" => env["rack.input"].read, "encodings" => env.select { |key, one| key !~ /\A[a-z]/ && one.is_a?(String) }.map { |_, one| one.encoding.to_s }.uniq)
  end

  def digest(input)
    size = 0
    sha = Digest::SHA256.new
    buffer = +""
    while input.read(10_000, buffer)
      size += buffer.bytesize
      sha << buffer
    end
    [size, sha.hexdigest]
  end

  # One `gets`, one `read` and so on, over the same body.
  def reads(input)
    got = [input.gets, input.read(3), input.read(0)]
    buffer = +"old"
    got << input.read(2, buffer).dup << buffer.dup
    got << input.gets
    input.each { |line| got << line }
    got << input.read << input.read(5) << input.gets
    input.read(5, buffer)
    got << buffer
  end

  # Says on a FIFO that it is here, and waits for a line on another.
  def wait_for_line
    File.write(ENV.fetch("TEST_FIFO_OUT"), "here\n")
    File.open(ENV.fetch("TEST_FIFO_IN"), "r+", &:gets) # an `open` that waits would be ended by a signal
    text("went on")
  end
end

ROUTES = {
  "/" => ->(_) { Routes.text("hello") },
  "/environ" => ->(env) { Routes.json(Routes.shown(env)) },
  "/digest" => ->(env) { Routes.json(Routes.digest(env["rack.input"])) },
  "/reads" => ->(env) { Routes.json(Routes.reads(env["rack.input"])) },
  "/twice" => lambda do |env|
    first = env["rack.input"].read
    env["rack.input"].rewind
    again = Routes.digest(env["rack.input"])
    env["rack.input"].rewind
    Routes.json([first.bytesize, again, env["rack.input"].gets.to_s.bytesize])
  end,
  "/rewinds" => ->(env) { Routes.json(env["rack.input"].respond_to?(:rewind)) },
  "/read-one" => ->(env) { Routes.text(env["rack.input"].read(1)) },
  "/read-error" => lambda do |env|
    env["rack.input"].read
  rescue IOError => error
    warn "read failed with #{error.class}"
    raise
  end,
  "/read-late" => ->(env) { $late = env["rack.input"] and Routes.text("kept") },
  "/read-later" => ->(_) { Routes.text((begin $late.read; rescue IOError => error; error.class.name; end).to_s) },
  "/two-cookies" => ->(_) { [200, { "set-cookie" => %w[a=1 b=2], "x-between" => "x" }, ["ok"]] },
  # Rack 2's own headers have no `each` without a block.
  "/each-only" => lambda do |_|
    fields = Object.new
    def fields.each
      yield "set-cookie", "a=1\nb=2"
      yield "connection", "x-named"
      yield "x-named", "1"
    end
    [200, fields, ["ok"]]
  end,
  "/lines" => ->(_) { [200, { "set-cookie" => "a=1\nb=2" }, ["ok"]] },
  "/no-length" => ->(_) { [200, {}, ["one ", "two"]] },
  "/large-array" => ->(_) { [200, {}, ["l" * 60_000, "m" * 40_000]] },
  "/empty" => ->(_) { [200, {}, []] },
  "/utf8" => ->(_) { [200, { "x-name" => "café" }, ["déjà ", "vu\xff".b, " ü"]] },
  "/parts" => ->(_) { [200, { "content-type" => "text/plain" }, Routes::Parts.new("parts", ["", "first", "", "second"])] },
  "/measured-parts" => ->(_) { [200, { "content-length" => "4" }, Routes::Parts.new("measured", %w[ab cd])] },
  "/array-like" => ->(_) { [200, {}, Routes::ArrayBody.new("array-like", %w[a b])] },
  "/failing-parts" => ->(_) { [200, {}, Routes::Parts.new("failing", ["a", -> { raise ArgumentError, "after the first part" }])] },
  "/closed" => ->(_) { Routes.json(Routes::CLOSED.slice!(0..)) },
  "/finished" => ->(_) { Routes.json(Routes::FINISHED.slice!(0..)) },
  "/endless" => ->(_) { [200, {}, Routes::Endless.new] },
  "/fail" => ->(_) { raise ArgumentError, "before the response" },
  "/fail-deep" => lambda do |_|
    raise KeyError, "the cause"
  rescue KeyError
    raise "the effect"
  end,
  "/nil" => ->(_) { nil },
  "/no-body" => ->(_) { [200, {}, nil] },
  "/number-part" => ->(_) { [200, {}, [5]] },
  "/status" => ->(env) { [env["QUERY_STRING"].to_i, { "content-type" => "text/plain", "content-length" => "6", "x-status" => "1" }, ["a body"]] },
  "/odd-status" => ->(env) { [env["QUERY_STRING"], {}, []] },
  "/bad-field" => lambda do |env|
    bad = {
      "n" => ["x-bad", "a\rb"], "z" => ["x-bad", "a\0b"], "t" => ["x bad", "a"], "s" => [:x_bad, "a"], "l" => ["content-length", "1x"],
      "e" => ["x-bad", ["a\nb"]]
    }
    [200, [bad[env["QUERY_STRING"]]].to_h, ["never"]]
  end,
  "/numbers" => ->(_) { [200, { "content-length" => 2, "x-number" => 7, "x-nil" => nil }, ["ok"]] },
  "/private" => ->(_) { [200, { "rack.own" => "1", "status" => "200", "x-kept" => "1" }, ["ok"]] },
  "/hop-by-hop" => lambda do |_|
    fields = { "Connection" => "close, X-Named", "Transfer-Encoding" => "gzip, chunked", "Keep-Alive" => "timeout=5", "X-Named" => "1", "X-Kept" => "1" }
    [200, fields, ["ok"]]
  end,
  # Bodies that the application chunks itself: whole, in parts of so many bytes, or by a stream.
  "/own-chunks" => lambda do |env|
    way, how, name = env["QUERY_STRING"].split(",", 3)
    bytes = Routes::OWN_CHUNKS.fetch(name)
    fields = { "Transfer-Encoding" => "Chunked", "Content-Length" => "1" }
    pieces = bytes.scan(/.{1,#{how}}/mn)
    case way
    when "whole" then [200, fields, pieces]
    when "parts" then [200, fields, Routes::Parts.new("chunks", pieces)]
    when "file" then [200, fields, Routes::FileBody.new(Tempfile.create("chunks").tap { |file| file.write(bytes) and file.close }.path)]
    when "thread" then [200, fields, ->(stream) { Thread.new { Routes.write_all(stream, pieces) } }]
    else [200, fields.merge("rack.hijack" => ->(stream) { pieces.each { |piece| stream.write(piece) } and stream.close }), []]
    end
  end,
  "/close" => ->(_) { [200, { "connection" => "close" }, ["ok"]] },
  "/too-short" => ->(_) { [200, { "content-length" => "10" }, ["abc"]] },
  "/too-short-parts" => ->(_) { [200, { "content-length" => "10" }, Routes::Parts.new("short", %w[abc def])] },
  "/too-long" => ->(_) { [200, { "content-length" => "3" }, ["abcdef"]] },
  "/too-long-parts" => ->(_) { [200, { "content-length" => "3" }, Routes::Parts.new("long", %w[ab cd ef])] },
  "/big" => lambda do |env|
    size = env["QUERY_STRING"].to_i
    Routes.text(((0..255).to_a.pack("C*") * (size / 256)) + ("e" * (size % 256)))
  end,
  "/big-parts" => ->(env) { [200, {}, Routes::Parts.new("big", ["b" * 100_000] * env["QUERY_STRING"].to_i)] },
  "/file" => ->(env) { [200, {}, Routes::FileBody.new(env["QUERY_STRING"].empty? ? __FILE__ : env["QUERY_STRING"])] },
  "/stream" => lambda do |_|
    [200, { "content-type" => "text/plain" }, lambda do |stream|
      stream.write("a", "b")
      stream << "c" << "d"
      stream.flush
      stream.close
      Routes::CLOSED << stream.closed?
    end]
  end,
  "/echo" => lambda do |_|
    [200, {}, lambda do |stream|
      while (piece = stream.read(4))
        stream.write(piece.upcase)
      end
      stream.close_read
      stream.close_write
      Routes::CLOSED << stream.closed?
    end]
  end,
  "/left-open" => ->(_) { [200, {}, ->(stream) { Thread.new { stream.write("late"); stream.close } }] },
  "/left-open-big" => ->(_) { [200, {}, ->(stream) { Thread.new { 5.times { stream.write("b" * 100_000) }; stream.close } }] },
  "/open-for-ever" => lambda do |_|
    [200, {}, lambda do |stream|
      Thread.new do
        loop { stream.write("x" * 10_000) }
      rescue IOError => error
        Routes::CLOSED << error.class.name
      end
    end]
  end,
  "/failing-stream" => ->(_) { [200, {}, ->(_stream) { raise ArgumentError, "in the stream" }] },
  "/hijack" => ->(_) { [200, { "x-hijacked" => "1", "rack.hijack" => ->(io) { io.write("taken"); io.close } }, Routes::Parts.new("hijack", ["never"])] },
  "/take-over" => lambda do |env|
    io = env["rack.hijack"].call
    Thread.new do
      io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n#{env.values_at("HTTP_UPGRADE", "HTTP_CONNECTION")} #{io.equal?(env["rack.hijack_io"])} ")
      next $forgotten = io if env["QUERY_STRING"] == "forget"

      while (line = io.gets)
        io.write("heard #{line}")
      end
      io.close
    end
    [-1, {}, Routes::Parts.new("taken", [])]
  end,
  "/take-over-late" => lambda do |env|
    kept = env["rack.hijack"]
    [200, {}, Routes::Parts.new("late", ["begun ", -> { kept.call rescue "#{$!.class}: #{$!.message}" }])]
  end,
  "/take-over-of-another" => lambda do |env|
    kept = $kept_hijack
    $kept_hijack = env["rack.hijack"]
    Routes.text(kept ? (kept.call rescue $!.class.name) : "kept")
  end,
  "/take-over-and-raise" => lambda do |env|
    env["rack.hijack"].call.close
    raise ArgumentError, "behind the hijack"
  end,
  "/hints" => lambda do |env|
    env["rack.early_hints"].call("link" => "</a.css>; rel=preload\n</b.js>; rel=preload")
    [200, {}, Routes::Parts.new("hints", ["begun", -> { env["rack.early_hints"].call("link" => "</late>"); "" }])]
  end,
  "/keep-each" => lambda do |_|
    body = Object.new
    body.define_singleton_method(:each) do |&block|
      $kept = block
      block.call("kept")
    end
    [200, {}, body]
  end,
  "/use-kept" => lambda do |_|
    use = -> { Thread.new { $kept.call("late") rescue $!.class.name }.value }
    [200, {}, Routes::Parts.new("kept", ["own ", use, " ", -> { $kept.call("late") rescue "#{$!.class} #{$!.message}" }])]
  end,
  "/large-hints" => lambda do |env|
    env["rack.early_hints"].call("link" => "</#{"a" * 140_000}>")
    Routes.text("never")
  end,
  "/large-field" => ->(env) { [200, { "x-large" => "v" * (env["QUERY_STRING"].to_i - "x-large\0\0".size) }, ["b" * 100_000]] },
  "/read-some" => lambda do |env|
    env["rack.input"].read(env["QUERY_STRING"].to_i)
    Routes.text("read")
  end,
  "/late" => lambda do |env|
    late = Routes::Parts.new("late", ["late"])
    late.define_singleton_method(:close) { sleep(env["QUERY_STRING"].to_i / 1000.0) }
    [200, {}, late]
  end,
  "/finishing" => lambda do |env|
    env["rack.response_finished"] << ->(_, status, _, error) { Routes::FINISHED << ["first", status, error&.class&.name] }
    env["rack.response_finished"] << ->(*) { raise "a callback fails" }
    env["rack.response_finished"] << ->(*arguments) { Routes::FINISHED << ["last", arguments.size] }
    raise "on its way" if env["QUERY_STRING"] == "fail"

    Routes.text("finishing")
  end,
  "/after-reply" => lambda do |env|
    said = Routes::FINISHED
    env["rack.response_finished"] << ->(*) { said << "finished" }
    env["rack.after_reply"] << -> { said << "first" } << -> { raise "a callable fails" }
    body = Routes::Parts.new("after", ["body", -> { env["rack.after_reply"] << -> { said << "of the body" } and "" }])
    body.define_singleton_method(:close) { said << "closed" }
    raise "before its response" if env["QUERY_STRING"] == "fail"

    [200, {}, body]
  end,
  "/only-after-reply" => ->(env) { env["rack.after_reply"] << -> { Routes::FINISHED << "alone" } and Routes.text("replied") },
  "/continue" => lambda do |env|
    2.times { env["keepwarm.send_continue"].call }
    Routes.text(env["rack.input"].read)
  end,
  "/unicorn" => lambda do |env|
    next [100, {}, Routes::Parts.new("unicorn", [])] if env["HTTP_EXPECT"]

    Routes.text("read #{env["rack.input"].read}")
  end,
  "/forever-100" => ->(_) { [100, {}, []] },
  "/prints" => lambda do |env|
    puts "printed to stdout"
    warn "printed to stderr"
    env["rack.errors"].puts "written to rack.errors"
    env["rack.errors"].flush
    Routes.text("ok")
  end,
  "/fork" => lambda do |_|
    child = fork
    next Routes.text("written by the child, which must not be seen") if child.nil?

    Process.wait(child)
    Routes.text("by the parent")
  end,
  "/grandchild" => lambda do |env|
    code = "links = Dir['/proc/self/fd/*'].map { |one| File.readlink(one) rescue nil };" \
           "print links.include?('#{env["QUERY_STRING"]}'), ' ', ENV.key?('KEEPWARM_FD')"
    Routes.text(IO.popen([RbConfig.ruby, "-e", code], &:read))
  end,
  "/exit" => ->(_) { exit 7 },
  "/abort" => ->(_) { abort "no more of this" },
  "/exit-late" => ->(_) { [200, {}, Routes::Parts.new("exit", ["what was made before", -> { exit 7 }])] },
  "/die" => ->(_) { exit! 9 },
  "/at-exit" => ->(_) { at_exit { warn "at_exit ran" } and Routes.text("ok") },
  "/kill-thread" => ->(_) { Thread.current.kill },
  "/memory" => ->(_) { raise NoMemoryError, "no more" },
  "/recursion" => ->(env) { ROUTES["/recursion"].call(env) },
  "/leak" => ->(_) { Dir.chdir("/") and File.umask(0o077) and (ENV["TZ"] = "Asia/Tokyo") and Routes.text("leaked") },
  "/place" => ->(_) { Routes.json([Dir.pwd, File.umask, ENV["TZ"]]) },
  "/timeout" => lambda do |env|
    require "timeout"
    begin
      Timeout.timeout(0.05) { env["rack.input"].read }
    rescue Timeout::Error
      warn "the time is over"
      next Routes.text("timed out, then #{env["rack.input"].read}")
    end
    Routes.text("in time")
  end,
  "/wait" => ->(_) { Routes.wait_for_line }
}.freeze

->(env) { ROUTES.fetch(env["PATH_INFO"]).call(env) }

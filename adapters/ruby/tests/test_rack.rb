# frozen_string_literal: true

require "driver"
require "digest"

# What several suites share: one worker for the tests of a class, and short ways to ask it.
class SharedWorker < Minitest::Test
  include Driver

  class << self
    def entry
      "app.rb"
    end

    def options
      []
    end

    def worker
      @worker ||= Driver::Worker.new(entry, *options).tap { |worker| Minitest.after_run { worker.stop } }
    end
  end

  # Run only those that are made for it.
  def self.runnable_methods
    self == SharedWorker ? [] : super
  end

  def setup
    worker.auto_credit = true
  end

  def worker
    self.class.worker
  end

  def get(path = "/", **more)
    worker.get(path, **more)
  end

  def json(path, **more)
    get(path, **more).json
  end

  def closed
    json("/closed")
  end

  # What bodies have noted. It happens after the response has left, which in threads is beside the next request.
  def assert_closed(*expected)
    seen = closed
    return assert_equal(expected, seen) if self.class.options.empty?

    Driver.eventually { (expected - (seen += closed)).empty? }
  end

  def assert_quiet(&action)
    assert_equal "", worker.log_of(&action)
  end

  def log_of(&action)
    worker.log_of(&action)
  end
end

class EnvironmentTest < SharedWorker
  def environ(**more)
    json("/environ", **more)
  end

  def test_the_fixed_strings
    env = environ(query: "x=1&y=%20", script: "/app", raw_path: "/app/environ", scheme: "https", server: %w[shop.example 8443])
    expected = {
      "REQUEST_METHOD" => "GET", "SERVER_PROTOCOL" => "HTTP/1.1", "rack.url_scheme" => "https", "PATH_INFO" => "/environ",
      "SCRIPT_NAME" => "/app", "QUERY_STRING" => "x=1&y=%20", "REQUEST_URI" => "/app/environ?x=1&y=%20",
      "SERVER_NAME" => "shop.example", "SERVER_PORT" => "8443", "REMOTE_ADDR" => "192.0.2.7", "REMOTE_PORT" => "52144",
      "SERVER_SOFTWARE" => "keepwarm/0.0.1", "HTTPS" => "on", "rack.hijack?" => true
    }
    assert_equal expected, env.slice(*expected.keys)
  end

  def test_paths_are_percent_encoded
    env = environ(script: "/a b", raw_path: "/a%20b/environ")
    assert_equal ["/a%20b", "/environ"], env.values_at("SCRIPT_NAME", "PATH_INFO")
    env = environ(script: "/app", raw_path: "/app/environ", query: "")
    assert_equal "/app/environ", env["REQUEST_URI"]
  end

  def test_fields_become_http_names
    env = environ(fields: [%w[host shop.example], %w[x-my-own v], %w[content-type text/plain], %w[x-9 n], %w[version x]])
    assert_equal %w[shop.example v n text/plain], env.values_at("HTTP_HOST", "HTTP_X_MY_OWN", "HTTP_X_9", "CONTENT_TYPE")
    assert_equal "HTTP/1.1", env["HTTP_VERSION"]
    refute env.key?("HTTP_CONTENT_TYPE")
    refute env.key?("HTTP_CONTENT_LENGTH")
  end

  def test_the_user_is_who_keepwarm_says
    env = environ(fields: [%w[remote-user eve], %w[auth-type eve]])
    assert_empty env.slice("REMOTE_USER", "AUTH_TYPE")
    env = environ(flags: END_BODY | USER, fields: [%w[x y], %w[Basic jo]])
    assert_equal %w[jo Basic y], env.values_at("REMOTE_USER", "AUTH_TYPE", "HTTP_X")
    env = environ(flags: END_BODY | USER | REPEATS, fields: [%w[x 1], %w[x 2], ["", "jo"]])
    assert_equal ["jo", nil, "1,2"], env.values_at("REMOTE_USER", "AUTH_TYPE", "HTTP_X")
    assert_empty environ.slice("REMOTE_USER", "AUTH_TYPE")
  end

  # An application with the Rack of this version, as far as the adapter looks at it.
  def with_rack(release)
    Dir.mktmpdir do |folder|
      entry = File.join(folder, "app.rb")
      File.write(entry, "module Rack; RELEASE = #{release.inspect}; end\neval(File.read(#{File.join(APPS, "app.rb").inspect}))\n")
      Worker.with(entry) { |worker| yield worker }
    end
  end

  def test_from_rack_3_1_on_http_version_is_the_header_of_the_client
    versions = lambda do |worker|
      [[], [%w[version 7]]].map { |fields| worker.get("/environ", fields: fields, protocol: "HTTP/1.0").json.values_at("HTTP_VERSION", "SERVER_PROTOCOL") }
    end
    %w[2.2.22 3.0.18].each { |release| with_rack(release) { |worker| assert_equal [%w[HTTP/1.0 HTTP/1.0]] * 2, versions.call(worker), release } }
    %w[3.1.0 3.2.3 4.0.0].each { |release| with_rack(release) { |worker| assert_equal [[nil, "HTTP/1.0"], %w[7 HTTP/1.0]], versions.call(worker), release } }
  end

  def test_repeated_fields_are_joined_in_order
    env = environ(
      flags: END_BODY | REPEATS, fields: [%w[x-a 1], %w[cookie a=1], %w[x-a 2], %w[cookie b=2], %w[x-b 3], %w[x-a 1]]
    )
    assert_equal ["1,2,1", "a=1; b=2", "3"], env.values_at("HTTP_X_A", "HTTP_COOKIE", "HTTP_X_B")
  end

  def test_no_request_sees_the_fields_of_another
    environ(fields: [%w[x-secret 1], %w[content-type a/b], %w[content-length 3]], body: "abc", query: "secret", scheme: "https")
    env = environ
    %w[HTTP_X_SECRET CONTENT_TYPE CONTENT_LENGTH HTTPS].each { |key| refute env.key?(key), key }
    assert_equal ["/environ", "http", ""], env.values_at("REQUEST_URI", "rack.url_scheme", "QUERY_STRING")
  end

  def test_values_are_binary
    assert_equal ["ASCII-8BIT"], environ(fields: [["x-name", "caf\xe9".b]])["encodings"]
    assert_equal ["ASCII-8BIT"], environ(flags: END_BODY | REPEATS, fields: [%w[x-a 1], %w[cookie a=1], %w[x-a 2], %w[cookie b=2]])["encodings"]
    assert_equal ["ASCII-8BIT"], environ(server: ["", ""], scheme: "https", query: "a=1", script: "/caf%C3%A9", fields: [%w[x-a 1]])["encodings"]
    assert_equal ["ASCII-8BIT"], environ(method: "POST", body: "abc", length: CHUNKED, fields: [%w[content-type a/b]])["encodings"]
  end

  def test_server_name_and_port_are_never_empty
    assert_equal %w[localhost 80], environ(server: ["", ""]).values_at("SERVER_NAME", "SERVER_PORT")
    assert_equal "443", environ(server: ["", ""], scheme: "https")["SERVER_PORT"]
  end

  def test_a_single_worker_says_so
    assert_equal [false, false, false], environ.values_at("rack.multithread", "rack.multiprocess", "rack.run_once")
  end

  def test_one_of_several_workers_says_so
    Worker.with("app.rb", workers: 4) { |worker| assert worker.get("/environ").json["rack.multiprocess"] }
  end

  def test_a_chunked_body_that_is_whole_has_a_length
    env = environ(method: "POST", body: "abc", length: CHUNKED)
    assert_equal %w[3 abc], env.values_at("CONTENT_LENGTH", "rack.input")
  end

  def test_thousands_of_invented_names_are_not_remembered_for_ever
    60.times do |turn|
      env = environ(fields: (0...50).map { |number| ["x-#{turn}-#{number}", "v"] })
      assert_equal "v", env["HTTP_X_#{turn}_49"]
    end
  end
end

class ResponsesTest < SharedWorker
  def test_a_response_of_one_part_is_one_frame
    response = get
    assert_equal [[:RESPONSE], 200, "hello"], [response.names, response.status, response.body]
    assert_equal [%w[content-type text/plain], %w[content-length 5]], response.fields
  end

  def test_an_array_without_a_length_is_one_frame
    assert_equal [[:RESPONSE], "one two"], get("/no-length").then { |response| [response.names, response.body] }
    assert_equal [[:RESPONSE], "", []], get("/empty").then { |response| [response.names, response.body, response.fields] }
    assert_equal [[:RESPONSE], "ab"], get("/array-like").then { |response| [response.names, response.body] }
    assert_closed "array-like"
  end

  def test_bytes_of_any_encoding
    response = get("/utf8")
    assert_equal ["café".b, "déjà vu\xff ü".b], [*response.field("x-name"), response.body]
  end

  def test_repeated_fields_stay_repeated_and_in_order
    assert_equal [%w[set-cookie a=1], %w[set-cookie b=2], %w[x-between x]], get("/two-cookies").fields
  end

  def test_parts_leave_as_they_come
    response = get("/parts")
    assert_equal %i[RESPONSE DATA DATA], response.names
    assert_equal ["second", ""], response.frames.drop(1).map(&:payload)
    assert_closed "parts ran to its end", "parts"
  end

  def test_parts_with_a_length_end_with_the_last
    response = get("/measured-parts")
    assert_equal [%i[RESPONSE DATA], "abcd"], [response.names, response.body]
    assert_closed "measured ran to its end", "measured"
  end

  def test_statuses
    [200, 201, 302, 404, 418, 500, 599, 999].each { |status| assert_equal status, get("/status", query: status.to_s).status }
    assert_equal 204, get("/odd-status", query: "204").status
  end

  def test_no_body_and_no_fields_about_one_with_204_and_304
    [204, 304].each do |status|
      response = get("/status", query: status.to_s)
      assert_equal [[:RESPONSE], "", [%w[x-status 1]]], [response.names, response.body, response.fields]
    end
  end

  def test_head_gets_the_fields_and_no_body
    response = get("/", method: "HEAD")
    assert_equal [[:RESPONSE], "", ["5"]], [response.names, response.body, response.field("content-length")]
  end

  def test_head_does_not_run_a_body_and_closes_it
    response = get("/endless", method: "HEAD")
    assert_equal [[:RESPONSE], ""], [response.names, response.body]
    assert_closed "never ends"
    assert_equal "", get("/stream", method: "HEAD").body
    assert_equal "", get("/hijack", method: "HEAD").body
    assert_closed "hijack"
  end

  def test_close_is_called_when_the_body_fails
    response = nil
    log = log_of { response = get("/failing-parts") }
    assert_equal ["a", 3], [response.body, response.reset[0]]
    assert_includes log, "after the first part (ArgumentError)"
    assert_closed "failing"
  end

  def test_sizes_around_a_frame_arrive_whole
    [0, 1, 65_535, 65_536, 65_537, 131_072, 300_001].each do |size|
      response = get("/big", query: size.to_s)
      assert_equal Digest::SHA256.hexdigest(((0..255).to_a.pack("C*") * (size / 256)) + ("e" * (size % 256))), Digest::SHA256.hexdigest(response.body)
      assert_nil response.reset
    end
  end

  def test_a_big_response_waits_for_credit
    worker.auto_credit = false
    stream = worker.request("/big", query: "400000")
    worker.take(stream) { |response| response.body.bytesize == 65_536 * 2 }
    worker.credit(stream, 100_000)
    worker.take(stream) { |response| response.body.bytesize == 65_536 * 2 + 100_000 }
    worker.credit(stream, 1_000_000)
    assert_equal 400_000, worker.response(stream).body.bytesize
    worker.credit(0, 334_464)
  end

  def test_many_big_parts
    assert_equal 700_000, get("/big-parts", query: "7").body.bytesize
    closed
  end

  def test_a_large_array_without_a_length_gets_one
    response = get("/large-array")
    assert_equal [100_000, ["100000"]], [response.body.bytesize, response.field("content-length")]
  end

  def test_files
    response = get("/file")
    assert_equal File.read(File.join(APPS, "app.rb")), response.body.dup.force_encoding("UTF-8")
    assert_equal [[:RESPONSE], [response.body.bytesize.to_s]], [response.names, response.field("content-length")]
    assert_closed "file"
    assert_equal "from each", get("/file", query: "/nowhere").body
    assert_equal "from each", get("/file", query: "/").body
    Tempfile.create do |file|
      file.write("x" * 400_000)
      file.flush
      response = get("/file", query: file.path)
      assert_equal [400_000, ["400000"]], [response.body.bytesize, response.field("content-length")]
    end
    closed
  end

  def test_callable_bodies
    response = get("/stream")
    assert_equal ["abcd", nil], [response.body, response.reset]
    assert_closed true
  end

  def test_a_callable_body_reads_the_request
    stream = worker.request("/echo", method: "POST", body: "ab", length: 9, flags: 0)
    worker.take(stream) { |response| response.names.include?(:RESPONSE) }
    worker.data(stream, "cdefghi", last: true)
    assert_equal "ABCDEFGHI", worker.response(stream).body
    assert_closed true
    assert_equal "", get("/echo").body
    closed
  end

  def test_a_stream_that_is_written_and_closed_by_another_thread
    assert_equal "late", get("/left-open").body
    assert_equal 500_000, get("/left-open-big").body.bytesize
    get
  end

  def test_a_stream_that_fails
    response = nil
    assert_includes log_of { response = get("/failing-stream") }, "in the stream (ArgumentError)"
    assert_equal [200, 3], [response.status, response.reset[0]]
  end

  def test_partial_hijack
    response = get("/hijack")
    assert_equal ["taken", [%w[x-hijacked 1]]], [response.body, response.fields]
    assert_closed "hijack"
  end

  def test_hop_by_hop_fields_are_not_forwarded_and_close_is_honored
    Worker.with("app.rb") do |worker|
      responses = []
      log = worker.log_of { 2.times { responses << worker.get("/hop-by-hop") << worker.get("/close") } }
      assert_equal [%w[X-Kept 1]], responses[0].fields
      assert responses.all?(&:close_after)
      assert_equal 1, log.scan("header Transfer-Encoding").size
      assert_equal 1, log.scan("header Keep-Alive").size
      assert_equal 1, log.scan("header Connection").size
    end
  end

  OWN_CHUNKS = {
    "plain" => "hello world", "trailers" => "hello world", "breaks" => "\r\n\r\n0\r\n\r\n", "empty" => "", "long" => "0123456789abcdef" * 12_500
  }.freeze

  def test_a_body_that_the_application_chunked_itself_is_sent_plain
    OWN_CHUNKS.each do |name, body|
      %w[whole parts file hijack thread].product([1, 2, 7, 30_000, 100_000]).each do |way, size|
        next if name == "long" && size < 30_000

        log = log_of do
          response = get("/own-chunks", query: "#{way},#{size},#{name}")
          assert_equal [200, body.b, nil], [response.status, response.body, response.reset], [way, size, name].inspect
          assert_empty response.field("transfer-encoding")
          assert_equal way == "whole" && body.size > 65_536 ? ["200000"] : [], response.field("content-length")
        end
        assert_equal "", log
      end
    end
    closed
  end

  def test_a_body_with_wrong_chunks_is_the_applications_error
    wrong = ["bare feed", "feed in extension", "no size", "too long", "huge", "endless line", "trailer", "more", "no end", "cut"]
    wrong.product(%w[whole parts file hijack thread], [3, 100_000]).each do |name, way, size|
      before = worker.log.size
      response = get("/own-chunks", query: "#{way},#{size},#{name}")
      refute_nil response.reset, [name, way, size].inspect
      assert_operator "hello", :start_with?, response.body
      Driver.eventually { worker.log[before..].match?(/is not chunked as its Transfer-Encoding says|ended before its last chunk/) }
    end
    closed
  end

  def test_a_body_that_is_not_chunked_whatever_its_fields_say_is_sent_as_it_is
    { "not chunked" => "hello world", "sign" => "+5\r\nhello\r\n0\r\n\r\n", "digits" => "abc", "nothing" => "" }.each do |name, body|
      %w[whole parts file hijack thread].product([1, 3, 100_000]).each do |way, size|
        response = get("/own-chunks", query: "#{way},#{size},#{name}")
        assert_equal [200, body, nil, []], [response.status, response.body, response.reset, response.field("transfer-encoding")], [way, size, name].inspect
      end
    end
    closed
  end

  def test_head_of_a_body_that_the_application_chunked_itself
    assert_equal [[:RESPONSE], ""], get("/own-chunks", method: "HEAD", query: "parts,1,cut").then { |response| [response.names, response.body] }
    closed
  end

  def test_a_block_that_a_body_kept_is_of_no_use_for_another_response
    assert_equal "kept", get("/keep-each").body
    assert_equal "own IOError IOError the response has ended", get("/use-kept").body
    closed
  end

  def test_early_hints_that_no_frame_can_hold_are_the_applications_error
    assert_equal 3, get("/large-hints", flags: END_BODY | EARLY_HINTS).reset[0]
  end

  def test_a_computed_length_fits_beside_as_many_fields_as_there_may_be
    [65_472, 65_473].each do |size|
      response = get("/large-field", query: size.to_s)
      assert_equal size == 65_472 ? 100_000 : 0, response.body.bytesize
    end
  end

  def test_early_hints
    response = get("/hints", flags: END_BODY | EARLY_HINTS)
    assert_equal [[103, [["link", "</a.css>; rel=preload"], ["link", "</b.js>; rel=preload"]]]], response.informs
    assert_equal %i[INFORM RESPONSE DATA], response.names
    assert_equal [], get("/hints").informs
    closed
  end

  def test_values_that_are_no_strings
    assert_equal [%w[content-length 2], %w[x-number 7]], get("/numbers").fields
    assert_equal [%w[x-kept 1]], get("/private").fields
  end

  def assert_finished(*expected)
    seen = []
    Driver.eventually { (seen += json("/finished")).size >= expected.size }
    assert_equal expected, seen
  end

  def test_rack_after_reply_runs_in_order_after_the_response
    assert_equal "body", get("/after-reply").body
    assert_finished "closed", "finished", "first", "of the body"
    assert_includes worker.log, "a callable fails (RuntimeError)"
    log_of { assert_equal 3, get("/after-reply", query: "fail").reset[0] }
    assert_finished "finished", "first"
    closed
  end

  def test_what_runs_after_the_response_runs_in_reverse_order
    get("/finishing")
    assert_finished ["last", 4], ["first", 200, nil]
    assert_includes worker.log, "a callback fails (RuntimeError)"
    log_of { get("/finishing", query: "fail") }
    assert_finished ["last", 4], ["first", nil, "RuntimeError"]
  end
end

class ErrorsTest < SharedWorker
  def test_an_exception_before_the_response
    log = log_of { assert_equal [[:RESET], 3], get("/fail").then { |response| [response.names, response.reset[0]] } }
    assert_includes log, "before the response (ArgumentError)"
    assert_match(/app\.rb:\d+:in/, log)
    refute_includes log, "lib/keepwarm"
    refute_includes log, "keepwarm-worker"
  end

  def test_the_causes_are_in_the_log
    log = log_of { get("/fail-deep") }
    assert_includes log, "the effect (RuntimeError)"
    assert_includes log, "the cause (KeyError)"
  end

  def test_invalid_responses
    { "/nil" => "instead of a status", "/no-body" => "neither `each` nor `call`", "/number-part" => "instead of String" }.each do |path, said|
      assert_includes log_of { assert_equal 3, get(path).reset[0] }, said
    end
  end

  def test_fields_that_cannot_be_sent
    said = { "n" => "CR, LF or NUL", "z" => "CR, LF or NUL", "t" => "invalid header name", "s" => "Symbol", "l" => "Content-Length", "e" => "CR, LF or NUL" }
    said.each { |which, words| assert_includes log_of { assert_equal 3, get("/bad-field", query: which).reset[0] }, words }
    assert_includes log_of { assert_equal 3, get("/lines").reset[0] }, "CR, LF or NUL" # Rack 3 has no lines in values
  end

  def test_statuses_that_cannot_be_sent
    %w[OK 20 101 103 2000 099].each { |status| assert_equal 3, get("/odd-status", query: status).reset[0], status }
  end

  def test_too_short
    { "/too-short" => "abc", "/too-short-parts" => "abcdef" }.each do |path, body|
      response = nil
      log = log_of { response = get(path) }
      assert_equal [body, 4], [response.body, response.reset[0]]
      assert_includes log, "after #{body.size} of the 10 bytes"
    end
    closed
  end

  def test_too_long_is_cut_and_logged_once
    Worker.with("app.rb") do |worker|
      log = worker.log_of do
        %w[/too-long /too-long-parts /too-long].each do |path|
          response = worker.get(path)
          assert_equal ["abc", nil], [response.body, response.reset]
        end
      end
      assert_equal 1, log.scan("longer than its Content-Length").size
    end
  end

  def test_recursion_without_end
    log = log_of { assert_equal 3, get("/recursion").reset[0] }
    assert_includes log, "SystemStackError"
    assert_match(/ \.\.\. \d+ levels\.\.\.$/, log)
    assert_operator log.lines.size, :<, 300
  end
end

class BodiesTest < SharedWorker
  READS = ["first line\n", "sec", "", "on", "on", "d line\n", "third\n", "fourth\n", "fifth", "", nil, nil, ""].freeze

  def test_a_body_in_pieces
    body = Random.bytes(300_000)
    stream = worker.request("/digest", method: "POST", body: body[0, 50_000], length: body.size, flags: 0)
    50_000.step(body.size - 1, 60_000) { |at| worker.data(stream, body[at, 60_000], last: at + 60_000 >= body.size) }
    assert_equal [body.size, Digest::SHA256.hexdigest(body)], worker.response(stream).json
  end

  def test_credit_comes_back_for_what_was_read
    Worker.with("app.rb", *self.class.options) do |worker|
      stream = worker.request("/digest", method: "POST", length: CHUNKED, flags: 0)
      4.times { worker.data(stream, "x" * 65_536) }
      response = worker.take(stream) { |one| one.names.count(:CREDIT) >= 4 }
      worker.data(stream, last: true)
      worker.response(stream)
      assert_equal 4 * 65_536, response.frames.select { |frame| frame.name == :CREDIT }.sum { |frame| frame.payload.unpack1("N") }
    end
  end

  def test_gets_read_each
    body = "first line\nsecond line\nthird\nfourth\nfifth"
    assert_equal READS, json("/reads", body: body, method: "POST")
    0.step(body.size - 1, 3) do |cut|
      stream = worker.request("/reads", method: "POST", body: body[0, cut], length: body.size, flags: 0)
      worker.data(stream, body[cut, 1])
      worker.data(stream, body[(cut + 1)..], last: true)
      assert_equal READS, worker.response(stream).json, "cut at #{cut}"
    end
    assert_equal [nil, nil, "", nil, "", nil, "", nil, nil, ""], json("/reads")
  end

  def test_a_client_that_breaks_off_its_body
    log = log_of do
      stream = worker.request("/read-error", method: "POST", length: 100, flags: 0)
      worker.data(stream, "part")
      worker.reset(stream, 5, "the client went away")
      assert_equal 1, worker.response(stream).reset[0]
    end
    assert_equal "read failed with Keepwarm::ClientDisconnected\n", log
  end

  def test_a_response_without_reading
    stream = worker.request("/", method: "POST", length: 200_000, flags: 0)
    assert_equal 200, worker.response(stream).status
    3.times { worker.data(stream, "x" * 65_536) } # on its way when the response ended
    assert_equal 200, get.status
    credited = worker.held.select { |frame| frame.name == :CREDIT }.sum { |frame| frame.payload.unpack1("N") }
    assert_operator credited, :>=, 2 * 65_536
  end

  def test_the_first_read_asks_for_the_body
    stream = worker.request("/read-one", method: "POST", length: 3, flags: EXPECT)
    response = worker.take(stream) { |one| one.wants.positive? }
    worker.data(stream, "abc", last: true)
    worker.response(stream)
    assert_equal ["a", 1], [response.body, response.wants]
  end

  def test_a_response_without_reading_asks_for_nothing
    stream = worker.request("/", method: "POST", length: 3, flags: EXPECT)
    assert_equal [:RESPONSE], worker.response(stream).names
  end

  def test_the_explicit_call
    stream = worker.request("/continue", method: "POST", length: 3, flags: EXPECT)
    response = worker.take(stream) { |one| one.wants.positive? }
    worker.data(stream, "abc", last: true)
    worker.response(stream)
    assert_equal ["abc", 1], [response.body, response.wants]
    assert_equal 0, get("/continue", body: "here", method: "POST").wants
  end

  def test_the_convention_of_unicorn
    closed
    stream = worker.request("/unicorn", method: "POST", length: 3, flags: EXPECT)
    response = worker.take(stream) { |one| one.wants.positive? }
    worker.data(stream, "abc", last: true)
    worker.response(stream)
    assert_equal [200, "read abc", 1], [response.status, response.body, response.wants]
    assert_closed "unicorn"
    assert_equal "read whole", get("/unicorn", method: "POST", body: "whole").body
  end

  def test_100_for_ever_is_an_error
    assert_includes log_of { assert_equal 3, get("/forever-100").reset[0] }, "100 a second time"
  end

  def test_data_that_came_before_it_was_asked_for
    stream = worker.request("/continue", method: "POST", body: "ab", length: 3, flags: EXPECT)
    worker.data(stream, "c", last: true)
    assert_equal "abc", worker.response(stream).body
  end

  def test_trailers_end_a_body
    stream = worker.request("/digest", method: "POST", length: CHUNKED, flags: 0)
    worker.data(stream, "abc")
    worker.send(Driver.pack(:TRAILERS, stream, Driver.block(%w[x-sum 1])))
    assert_equal 3, worker.response(stream).json[0]
  end

  def test_a_body_that_was_read_in_part_gives_its_credit_back
    60.times do |number|
      stream = worker.request("/read-some", method: "POST", query: [0, 1, 60_000, 90_000][number % 4].to_s, length: 100_000, flags: 0)
      2.times { worker.data(stream, "d" * 50_000) }
      worker.data(stream, last: true)
      assert_equal "read", worker.response(stream).body
    end
    # With threads, the last ones may not be through with theirs.
    Driver.eventually do
      get("/")
      back = worker.held.sum { |frame| frame.name == :CREDIT ? frame.payload.unpack1("N") : 0 }
      back > 60 * 100_000 - 3 * 262_144 / 4
    end
  end

  def test_a_body_is_not_read_after_the_response
    stream = worker.request("/read-late", method: "POST", length: 100, flags: 0)
    worker.response(stream)
    assert_equal "IOError", get("/read-later").body
  end

  def test_a_timeout_of_the_application_loses_no_byte
    before = worker.log.size
    stream = worker.request("/timeout", method: "POST", body: "ab", length: 6, flags: 0)
    worker.data(stream, "c")
    Driver.eventually { worker.log[before..].include?("the time is over") }
    worker.data(stream, "def", last: true)
    # What had been read when the time was over is the application's own loss.
    assert_match(/\Atimed out, then .*def\z/, worker.response(stream).body)
    assert_equal 200, get.status
  end

  def test_a_body_need_not_rewind
    assert_equal true, json("/rewinds", body: "whole", method: "POST")
    stream = worker.request("/rewinds", method: "POST", body: "ab", length: 6, flags: 0)
    assert_equal "false", worker.response(stream).body
  end
end

class LostClientsTest < SharedWorker
  def test_a_body_ends_without_a_word_in_the_log
    assert_quiet do
      stream = worker.request("/endless")
      worker.take(stream) { |response| response.frames.size > 3 }
      worker.reset(stream)
      assert_equal 1, worker.response(stream).reset[0]
    end
    assert_closed "each left", "never ends"
  end

  def test_one_that_waits_for_credit
    worker.auto_credit = false
    assert_quiet do
      stream = worker.request("/endless")
      worker.take(stream) { |response| response.body.bytesize >= 65_536 }
      worker.reset(stream)
      response = worker.response(stream)
      assert_equal 1, response.reset[0]
      worker.credit(0, response.body.bytesize)
    end
    closed
  end

  def test_a_thread_that_writes_to_a_lost_client_is_told
    assert_quiet do
      stream = worker.request("/open-for-ever")
      worker.take(stream) { |response| response.frames.size > 3 }
      worker.reset(stream)
      assert_equal 1, worker.response(stream).reset[0]
      assert_equal 200, get.status
    end
    told = []
    Driver.eventually { (told += closed).any? }
    assert_equal 1, told.size
    assert_includes ["Keepwarm::ClientDisconnected", "IOError"], told[0]
  end

  def test_a_reset_that_crosses_the_response_is_ignored
    stream = worker.request("/")
    worker.response(stream)
    worker.reset(stream)
    assert_equal 200, get.status
  end
end

# frozen_string_literal: true

require "driver"
require "test_rack"

# The same application under the Rack that is installed, with its lint around it: it finds nothing in what the adapter gives.
class LintTest < SharedWorker
  # It needs `URI`, and does not load it: as other servers do, the adapter has to.
  def test_lint_finds_nothing_in_an_application_that_loads_nothing
    Dir.mktmpdir do |folder|
      entry = File.join(folder, "config.ru")
      File.write(entry, "use Rack::Lint\nrun ->(env) { [200, { 'content-type' => 'text/plain' }, ['sound']] }\n")
      Driver::Worker.with(entry) { |worker| assert_equal "sound", worker.get("/").body }
    end
  end

  def self.entry
    "rack2.ru"
  end

  # It looks for every method of a socket.
  def test_lint_finds_nothing_in_a_partial_hijack
    assert_equal "taken", get("/hijack").body
  end

  def test_lint_finds_nothing
    log = log_of do
      assert_equal "hello", get.body
      assert_equal "", get("/", method: "HEAD").body
      assert_equal "firstsecond", get("/parts").body
      assert_equal %w[3 abc], json("/environ", method: "POST", body: "abc", fields: [%w[content-length 3], %w[content-type text/x]]).values_at("CONTENT_LENGTH", "rack.input")
      assert_equal 3, get("/odd-status", query: "").reset[0] # what the application does wrong is all that lint says
      stream = worker.request("/digest", method: "POST", body: "ab", length: 4, flags: 0, fields: [%w[content-type text/x]])
      worker.data(stream, "cd", last: true)
      assert_equal 4, worker.response(stream).json[0]
      assert_equal 200, get("/environ", script: "/app", raw_path: "/app/environ", scheme: "https").status
    end
    assert_equal 1, log.scan("Rack::Lint::LintError").size, log
    assert_includes log, "Status"
  end
end

# Rack 2 as it differs from 3.
class Rack2Test < SharedWorker
  READS = BodiesTest::READS

  def self.worker
    @worker ||= Driver::Worker.new("rack2.ru", env: { "LINT" => "no" }).tap { |worker| Minitest.after_run { worker.stop } }
  end

  def test_the_environment
    env = json("/environ")
    assert_equal [[1, 3], true, "HTTP/1.1"], env.values_at("rack.version", "rack.hijack?", "HTTP_VERSION")
  end

  def test_lines_of_a_value_are_fields
    assert_equal [%w[set-cookie a=1], %w[set-cookie b=2]], get("/lines").fields
    %w[n z].each { |which| log_of { assert_equal 3, get("/bad-field", query: which).reset[0] } }
    assert_equal [%w[x-bad a], %w[x-bad b]], get("/bad-field", query: "e").fields
  end

  def test_headers_that_only_have_an_each_with_a_block
    assert_equal [%w[set-cookie a=1], %w[set-cookie b=2]], get("/each-only").fields
  end

  def test_partial_hijack
    assert_equal "taken", get("/hijack").body
    assert_equal ["hijack"], closed
  end

  # Rails 6.1 chunks what `render stream: true` gives in the same way, with this class.
  def test_what_rack_chunked_has_chunked_is_sent_plain
    Dir.mktmpdir do |folder|
      entry = File.join(folder, "config.ru")
      File.write(entry, <<~'RUBY')
        use Rack::Chunked
        run ->(env) { [200, { "Content-Type" => "text/plain", "Trailer" => "x-sum" }, ["first ", "", "second"].each.lazy.tap { |body| def body.trailers = { "x-sum" => "1" } }] }
      RUBY
      Driver::Worker.with(entry) do |worker|
        response = nil
        assert_equal "", worker.log_of { response = worker.get("/") }
        assert_equal ["first second", nil, []], [response.body, response.reset, response.field("transfer-encoding")]
      end
    end
  end

  def test_bodies_are_read_as_often_as_wanted
    [0, 10, 200_000, 700_000].each do |size|
      body = Random.bytes(size)
      cuts = body.scan(/.{1,50000}/mn)
      stream = worker.request("/twice", method: "POST", length: size, flags: 0)
      cuts.each { |piece| worker.data(stream, piece) }
      worker.data(stream, last: true)
      expected = [size, [size, Digest::SHA256.hexdigest(body)], (body[/\A[^\n]*\n/n] || body).bytesize]
      assert_equal expected, worker.response(stream).json
    end
  end

  def test_gets_read_each
    body = "first line\nsecond line\nthird\nfourth\nfifth"
    0.step(body.size - 1, 3) do |cut|
      stream = worker.request("/reads", method: "POST", body: body[0, cut], length: body.size, flags: 0)
      worker.data(stream, body[cut, 1])
      worker.data(stream, body[(cut + 1)..], last: true)
      assert_equal READS, worker.response(stream).json, "cut at #{cut}"
    end
  end

  def test_no_file_is_left
    Dir.mktmpdir do |folder|
      Driver::Worker.with("rack2.ru", env: { "TMPDIR" => folder, "LINT" => "no" }) do |worker|
        stream = worker.request("/twice", method: "POST", length: 500_000, flags: 0)
        5.times { worker.data(stream, "x" * 60_000) }
        worker.take(stream) { |response| response.names.count(:CREDIT) >= 3 }
        assert_empty Dir.children(folder)
        worker.data(stream, "x" * 60_000)
        3.times { worker.data(stream, "x" * 46_666) }
        worker.data(stream, "xx", last: true)
        assert_equal 500_000, worker.response(stream).json[0]
      end
    end
  end
end

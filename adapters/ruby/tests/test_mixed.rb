# frozen_string_literal: true

require "driver"
require "digest"

# Requests of all sorts in a random order: each response is the right one, and nothing is left behind.
#
# KEEPWARM_TEST_REQUESTS says how many; the seed is minitest's.
class MixedTest < Minitest::Test
  include Driver

  COUNT = Integer(ENV.fetch("KEEPWARM_TEST_REQUESTS", "600"))
  SORTS = %i[plain environ fail failing_parts upload small_upload stream parts big lost lost_upload broken_upload continue unicorn finishing].freeze

  def test_one_at_a_time
    mixed
  end

  def test_in_threads
    mixed("--threads", "3")
  end

  def test_workers_that_exit
    [COUNT / 60, 200].min.times do |turn|
      Worker.with("app.rb") do |worker|
        worker.get("/") if turn.odd?
        assert_equal 3, worker.get(%w[/exit /abort][turn % 2]).reset[0]
        refute_equal 0, worker.drain
      end
    end
  end

  private

  def mixed(*options)
    random = Random.new(Minitest.seed || 1)
    Worker.with("app.rb", *options) do |worker|
      COUNT.times do |number|
        sort = SORTS[random.rand(SORTS.size)]
        send(sort, worker, random, number)
        between(worker, number)
      end
      assert_equal 0, worker.drain
    end
  end

  # What must not grow does not: descriptors, and memory by more than a fraction of what so many requests would leak.
  def between(worker, number)
    worker.held.clear
    worker.instance_variable_get(:@responses).clear
    return unless number == COUNT / 2 || number == COUNT - 1

    seen = [Dir.children("/proc/#{worker.pid}/fd").size, File.read("/proc/#{worker.pid}/statm").split[1].to_i * 4]
    first = (@seen ||= {})[worker.pid] ||= seen
    assert_operator seen[0], :<=, first[0] + 1
    assert_operator seen[1], :<=, first[1] + 30_000, "KiB"
  end

  def plain(worker, _, _)
    assert_equal "hello", worker.get("/").body
  end

  def environ(worker, _, number)
    assert_equal number.to_s, worker.get("/environ", fields: [["x-number", number.to_s]]).json["HTTP_X_NUMBER"]
  end

  def fail(worker, _, _)
    assert_equal 3, worker.get("/fail").reset[0]
  end

  def failing_parts(worker, _, _)
    assert_equal ["a", 3], worker.get("/failing-parts").then { |response| [response.body, response.reset[0]] }
    worker.get("/closed")
  end

  def upload(worker, random, _)
    body = random.bytes(random.rand(200_000))
    stream = worker.request("/digest", method: "POST", length: CHUNKED, flags: 0)
    body.scan(/.{1,40000}/mn) { |piece| worker.data(stream, piece) }
    worker.data(stream, last: true)
    assert_equal [body.bytesize, Digest::SHA256.hexdigest(body)], worker.response(stream).json
  end

  def small_upload(worker, random, _)
    body = random.bytes(random.rand(5_000))
    assert_equal [body.bytesize, Digest::SHA256.hexdigest(body)], worker.get("/digest", method: "POST", body: body).json
  end

  def stream(worker, _, _)
    assert_equal "abcd", worker.get("/stream").body
    worker.get("/closed")
  end

  def parts(worker, _, _)
    assert_equal "firstsecond", worker.get("/parts").body
    worker.get("/closed")
  end

  def big(worker, random, _)
    size = random.rand(200_000)
    assert_equal size, worker.get("/big", query: size.to_s).body.bytesize
  end

  def lost(worker, _, _)
    stream = worker.request("/endless")
    worker.take(stream) { |response| response.frames.size > 2 }
    worker.reset(stream)
    assert_equal 1, worker.response(stream).reset[0]
    worker.get("/closed")
  end

  def lost_upload(worker, _, _)
    stream = worker.request("/read-error", method: "POST", length: 100, flags: 0)
    worker.data(stream, "part")
    worker.reset(stream, 5)
    assert_equal 1, worker.response(stream).reset[0]
  end

  def broken_upload(worker, _, _)
    stream = worker.request("/", method: "POST", length: 90_000, flags: 0)
    worker.data(stream, "x" * 60_000)
    assert_equal "hello", worker.response(stream).body
    worker.data(stream, "x" * 30_000, last: true)
  end

  def continue(worker, _, _)
    stream = worker.request("/continue", method: "POST", length: 3, flags: EXPECT)
    worker.take(stream) { |response| response.wants.positive? }
    worker.data(stream, "abc", last: true)
    assert_equal "abc", worker.response(stream).body
  end

  def unicorn(worker, _, _)
    stream = worker.request("/unicorn", method: "POST", length: 3, flags: EXPECT)
    worker.take(stream) { |response| response.wants.positive? }
    worker.data(stream, "abc", last: true)
    assert_equal "read abc", worker.response(stream).body
    worker.get("/closed")
  end

  def finishing(worker, _, _)
    worker.get("/finishing")
    seen = 0
    Driver.eventually { (seen += worker.get("/finished").json.size) == 2 }
  end
end

# frozen_string_literal: true

require "driver"
require "keepwarm/response"
require "keepwarm/threaded"
require "test_process"
require "test_rack"

# Everything that holds for one request at a time holds for several, too.
[ResponsesTest, ErrorsTest, BodiesTest, LostClientsTest].each do |suite|
  threaded = Class.new(suite) do
    def self.options
      ["--threads", "3"]
    end

    def self.name
      "Threaded#{superclass.name}"
    end
  end
  Object.const_set("Threaded#{suite.name}", threaded)
end

class ThreadsTest < Minitest::Test
  include AnyWorkerTests
  include Driver

  def with(threads = 3, **more, &block)
    Worker.with("app.rb", "--threads", threads.to_s, **more, &block)
  end

  def test_hello_and_the_environment_say_so
    with(7) do |worker|
      assert_equal 7, worker.hello.payload.unpack("nN")[1]
      refute_includes worker.hello.payload, "ahead"
      assert_equal true, worker.get("/environ").json["rack.multithread"]
    end
  end

  def test_requests_are_served_at_once
    with do |worker|
      waiting = Array.new(2) { worker.request("/digest", method: "POST", length: 3, flags: 0) }
      assert_equal "hello", worker.get("/").body
      waiting.reverse_each { |stream| worker.data(stream, "abc", last: true) }
      waiting.each { |stream| assert_equal 3, worker.response(stream).json[0] }
    end
  end

  def test_what_requests_leak_is_put_back_when_none_is_in_work
    with do |worker|
      before = worker.get("/place").json
      beside = worker.request("/digest", method: "POST", length: 3, flags: 0)
      worker.get("/leak")
      assert_equal "/", worker.get("/place").json[0]
      worker.data(beside, "abc", last: true)
      assert_equal 3, worker.response(beside).json[0]
      Driver.eventually { worker.get("/place").json == before }
    end
  end

  def test_big_bodies_side_by_side_do_not_mix
    with(4) do |worker|
      streams = Array.new(4) { |number| [worker.request("/digest", method: "POST", length: CHUNKED, flags: 0), number.to_s] }
      5.times { streams.each { |stream, digit| worker.data(stream, digit * 40_000) } }
      streams.each { |stream, _| worker.data(stream, last: true) }
      streams.each { |stream, digit| assert_equal [200_000, Digest::SHA256.hexdigest(digit * 200_000)], worker.response(stream).json }
      streams = Array.new(4) { worker.request("/big", query: "400000") }
      streams.each { |stream| assert_equal 400_000, worker.response(stream).body.bytesize }
    end
  end

  def test_more_requests_than_were_asked_for_are_a_fault
    with(2) do |worker|
      3.times { worker.request("/digest", method: "POST", length: 3, flags: 0) }
      loop { break if worker.read.nil? }
      assert_equal 1, worker.wait
      assert_includes worker.log, "beyond the limit of 2"
    end
  end

  def test_drain_waits_for_all
    with do |worker|
      streams = Array.new(2) { worker.request("/digest", method: "POST", length: 3, flags: 0) }
      worker.send(Driver.pack(:DRAIN))
      streams.each { |stream| worker.data(stream, "abc", last: true) }
      streams.each { |stream| assert_equal 3, worker.response(stream).json[0] }
      assert_equal 0, worker.wait
    end
  end

  def test_exit_in_one_lets_the_others_finish
    with do |worker|
      other = worker.request("/digest", method: "POST", length: 3, flags: 0)
      assert_equal 3, worker.get("/exit").reset[0]
      assert_equal :DRAIN, (worker.held.first || worker.read).name
      worker.data(other, "abc", last: true)
      assert_equal 3, worker.response(other).json[0]
      assert_equal 7, worker.drain
    end
  end

  def test_a_thread_that_ends_itself_is_replaced
    with(1 + 1) do |worker|
      5.times { assert_equal 3, worker.get("/kill-thread").reset[0] }
      assert_equal "hello", worker.get("/").body
      assert_equal 0, worker.drain
    end
  end
end

# Clients that leave as their responses end.
class LeavingTest < Minitest::Test
  # The thread that reads hears of it between the last frame and the look whether anybody waits; Keepwarm would end the worker for
  # the RESET.
  def test_nothing_follows_the_end_of_a_response
    ours, theirs = UNIXSocket.pair
    connection = Keepwarm::Threaded.new(ours, 1)
    connection.instance_variable_set(:@credit, 1 << 20)
    stream = Keepwarm::Stream.new
    stream.open(1, 1 << 20)
    connection.define_singleton_method(:send) do |data|
      super(data)
      stream.lose if data.getbyte(5) & Keepwarm::Wire::END_BODY != 0
    end
    response = Keepwarm::Response.new(connection, [3, 0])
    response.begin(stream, false)
    response.deliver(200, { "content-length" => "6" }, %w[abc def].each, nil)
    frames = theirs.recv(4096)
    kinds = []
    until frames.empty?
      length, kind = frames.unpack("NC")
      kinds << kind
      frames = frames.byteslice(Keepwarm::Wire::HEAD_SIZE + length, frames.bytesize)
    end
    assert_equal [Keepwarm::Wire::RESPONSE, Keepwarm::Wire::DATA], kinds
  ensure
    [ours, theirs].each(&:close)
  end
end

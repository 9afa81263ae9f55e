# frozen_string_literal: true

require "keepwarm/response"
require "keepwarm/stream"

# What two threads do to one response.
class ResponseTest < Minitest::Test
  # A wire that keeps what is sent. `during`: what happens while a callable body is waited for.
  class Wire
    attr_reader :sent
    attr_writer :during

    def initialize
      @sent = Queue.new
    end

    def send(frame)
      @sent << frame
    end

    def poll; end

    def held = yield

    def admitted = yield

    def linger(_stream, body)
      @during.call(body)
    end
  end

  # Tells when the end of the response is noted, before it is done.
  class Slow < Keepwarm::Stream
    attr_writer :meanwhile

    def responded=(responded)
      super
      return unless responded

      action = @meanwhile
      @meanwhile = nil
      action&.call
    end
  end

  def test_a_writer_and_the_thread_that_waits_for_it_end_a_lost_response_once
    wire = Wire.new
    stream = Slow.new
    stream.open(1, 0)
    waiting = Thread.current
    noted = Queue.new
    stream.meanwhile = lambda do
      noted << true
      Thread.pass until waiting.stop?
    end
    writer = nil
    wire.during = lambda do |body|
      stream.lose
      writer = Thread.new { assert_raises(Keepwarm::ClientDisconnected) { body.write("x") } }
      noted.pop
    end
    response = Keepwarm::Response.new(wire, [3, 0])
    response.begin(stream, false)
    response.deliver(200, {}, ->(_) {}, nil)
    writer.join
    assert_equal 2, wire.sent.size, "the fields, and one end"
  end

  # It was cut: the thread that serves saw that the body was closed, and not that its last frame was still to be sent.
  def test_a_response_that_another_thread_is_about_to_end_is_not_cut
    wire = Wire.new
    stream = Slow.new
    stream.open(1, 0)
    serving = Thread.current
    closing = Queue.new
    stream.meanwhile = lambda do
      closing << true
      Thread.pass until serving.stop?
    end
    writer = nil
    body = lambda do |to|
      writer = Thread.new { to.close }
      closing.pop
    end
    response = Keepwarm::Response.new(wire, [3, 0])
    response.begin(stream, false)
    response.deliver(200, {}, body, nil)
    assert response.over
    writer.join
    assert_equal 2, wire.sent.size, "the fields, and the end"
  end
end

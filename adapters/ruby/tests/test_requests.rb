# frozen_string_literal: true

require "driver"
require "keepwarm/leaks"
require "keepwarm/serial_worker"

# A REQUEST that is alone in a read is taken apart in one call; the result is that of the codec, whatever its strings are.
class RequestsTest < Minitest::Test
  W = Keepwarm::Wire
  FIXED = %w[GET HTTP/1.1 http / /] + ["", "", "127.0.0.1", "80", "127.0.0.1", "5000"]

  # Keeps what it is asked to serve.
  class Recorder
    attr_reader :served

    def serve(flags, stream, strings, body)
      @served = [flags, stream.id, strings, body]
      nil
    end
  end

  def serve(frame)
    ours, theirs = UNIXSocket.pair
    service = Recorder.new
    connection = Keepwarm::Serial.new(ours)
    worker = Keepwarm::SerialWorker.new(connection, service, Keepwarm::Leaks.new)
    [worker.send(:fast, frame.b), service.served]
  ensure
    [ours, theirs].each { |socket| socket&.close }
  end

  def request(strings, count: strings.size, flags: W::END_BODY, stream: 1, body: "")
    text = strings.join("\0").b
    W.frame(W::REQUEST, flags, stream, [0, count, text.bytesize, text, body].pack("Q>nNa*a*"))
  end

  def test_strings_of_any_length
    [[], ["host", "a"], ["host", ""], ["a", "", "b", "c"], ["a", "b", "c", ""], ["x", "\xFF\r\n"], ["n", "v"] * 300].each do |fields|
      strings = (FIXED + fields).map(&:b)
      assert_equal [true, [W::END_BODY, 1, strings, ""]], serve(request(strings))
      assert(serve(request(strings)).last[2].all? { |string| string.encoding == Encoding::BINARY && !string.frozen? })
    end
  end

  def test_what_stands_behind_the_strings
    strings = FIXED + %w[host a]
    assert_equal [true, [W::END_BODY, 1, strings, "a\0body\0"]], serve(request(strings, body: "a\0body\0"))
    assert_equal [true, [W::END_BODY, 1, strings, ""]], serve(request(strings) + request(strings, stream: 2))
  end

  def test_a_count_that_is_not_theirs
    [FIXED + %w[host a], FIXED + ["host", ""], FIXED + ["", "", "", ""]].each do |strings|
      [-2, -1, 1, 2, 3, 1_000].each do |more|
        assert_equal [false, nil], serve(request(strings, count: strings.size + more)), "#{strings.size} strings and #{more}"
      end
    end
  end

  def test_numbers
    strings = FIXED + %w[host a]
    [1, 0xFFFF, 0x1_0000, 0xFFFF_FFFF].each { |id| assert_equal id, serve(request(strings, stream: id)).last[1] }
    [1, 0x2F, 0x6F].each { |flags| assert_equal flags, serve(request(strings, flags: flags)).last[0] }
    [request(strings, stream: 0), request(strings, flags: 0x80), request(strings, flags: W::WEBSOCKET), request(FIXED, flags: W::USER)].each { |frame| assert_equal [false, nil], serve(frame) }
    whole = request(strings)
    (0...whole.bytesize).each { |size| assert_equal [false, nil], serve(whole.byteslice(0, size)) }
    (0..255).each do |kind|
      frame = whole.dup.tap { |bytes| bytes.setbyte(4, kind) }
      assert_equal kind == W::REQUEST, serve(frame).first, kind
    end
    assert_equal [false, nil], serve("\xFF".b * 40)
  end
end

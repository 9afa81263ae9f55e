# frozen_string_literal: true

require "driver"
require "keepwarm/serial"
require "keepwarm/threaded"

# The vectors of spec/vectors, which every implementation of the wire must agree on (see README.md there).
class VectorsTest < Minitest::Test
  VECTORS = File.expand_path("../../../spec/vectors", __dir__)
  REQUEST_FLAGS = %w[END EXPECT REPEATS EARLY_HINTS WEBSOCKET TRAILERS USER].freeze
  FIXED = %w[
    method protocol scheme path raw_path query script_name server_name server_port client_address client_port
  ].freeze
  W = Keepwarm::Wire
  TYPES = %i[WELCOME REQUEST DATA TRAILERS CREDIT RESET HALF_CLOSE TEXT BINARY CLOSE PING DRAIN LEAKS].to_h { |name| [W.const_get(name), name.to_s] }.freeze

  def load(name)
    JSON.parse(File.read(File.join(VECTORS, name)))
  end

  def from(who, file)
    load(file).select { |one| one["from"] == who }
  end

  # The bytes of a case.
  def raw(one)
    pad = one["pad"] || { "hex" => "", "times" => 0 }
    [one["hex"]].pack("H*") + [pad["hex"]].pack("H*") * pad["times"]
  end

  # Strings of the vectors are bytes, one a character.
  def bytes(text)
    text.encode("ISO-8859-1").b
  end

  def body_of(frame)
    body = frame["body"] || ""
    body.is_a?(Hash) ? bytes(body["repeat"]) * body["times"] : bytes(body)
  end

  def latin(text)
    text.dup.force_encoding("ISO-8859-1").encode("UTF-8")
  end

  def latin_pairs(pairs)
    pairs.map { |pair| pair.map { |one| latin(one) } }
  end

  # A frame from Keepwarm in the vectors' form, by the adapter's own decoders.
  def described(kind, flags, stream, payload)
    { "type" => TYPES.fetch(kind), "stream" => stream }.merge(parts(kind, flags, payload))
  end

  def parts(kind, flags, payload)
    case kind
    when W::WELCOME
      names = %w[version_min version_max stream_credit connection_credit]
      *numbers, about = W.decode_welcome(payload)
      names.zip(numbers).to_h.merge("about" => latin_pairs(about))
    when W::REQUEST then request_parts(flags, payload)
    when W::DATA, W::TEXT, W::BINARY then { "flags" => flags.zero? ? [] : ["END"], "body" => payload }
    when W::TRAILERS then { "fields" => latin_pairs(W.decode_trailers(payload)) }
    when W::CREDIT then { "amount" => W.decode_credit(payload) }
    when W::RESET, W::CLOSE then %w[code reason].zip(W.decode_reason(payload)).to_h
    when W::LEAKS then { "flags" => flags.zero? ? [] : ["END"] }
    when W::PING then { "payload" => payload.unpack1("H*") }
    else {}
    end
  end

  def request_parts(flags, payload)
    length, strings, body = W.decode_request(payload, flags)
    user = flags & W::USER == 0 ? {} : { "user" => latin(strings.pop), "auth_type" => latin(strings.pop) }
    {
      "flags" => REQUEST_FLAGS.select.with_index { |_, place| flags[place] == 1 },
      "content_length" => length == W::UNKNOWN_LENGTH ? nil : length,
      "fields" => latin_pairs(strings.drop(11).each_slice(2).to_a),
      "body" => body
    }.merge(user, FIXED.zip(strings.first(11).map { |one| latin(one) }).to_h)
  end

  # The vectors' form with its body as bytes.
  def expected(frame)
    frame.key?("body") ? frame.merge("body" => body_of(frame)) : frame
  end

  # The bytes of a worker's frame, by the adapter's own encoders.
  def encoded(frame)
    stream = frame["stream"]
    strings = (frame["fields"] || []).flatten.map { |one| bytes(one) }
    block = [strings.size, strings.join("\0").b]
    flags = frame["flags"] || []
    case kind = frame["type"]
    when "HELLO"
      hello = W.hello(*frame.values_at("streams", "stream_credit", "connection_credit"), frame["about"].map { |pair| pair.map { |one| bytes(one) } })
      hello[0, 10] + [frame["version"]].pack("n") + hello[12..] # the adapter speaks one version only
    when "RESPONSE"
      bits = (flags.include?("END") ? W::END_BODY : 0) | (flags.include?("CLOSE") ? W::CLOSE_AFTER : 0)
      W.response(stream, bits, frame["status"], *block, body_of(frame))
    when "INFORM" then W.inform(stream, frame["status"], *block)
    when "TRAILERS" then W.trailers(stream, *block)
    when "CREDIT" then W.credit(stream, frame["amount"])
    when "SAMPLES"
      W.samples(frame["request"], frame["dropped"], frame["stacks"].map { |pair| pair.map { |one| bytes(one) } })
    when "GROWTH"
      W.growth(frame["request"], frame["microseconds"], frame["changes"].map { |pair| pair.map { |one| bytes(one) } })
    when "RESET" then W.reset(stream, frame["code"], frame["reason"])
    when "CLOSE" then W.close(stream, frame["code"], frame["reason"])
    else
      payload = kind == "PONG" ? [frame["payload"]].pack("H*") : body_of(frame)
      W.frame(W.const_get(kind), flags.include?("END") ? W::END_BODY : 0, stream, payload)
    end
  end

  def test_what_keepwarm_sends_is_decoded
    from("keepwarm", "frames.json").each do |one|
      buffer = raw(one)
      assert_equal expected(one["frame"]), described(*W.take_frame(buffer)), one["name"]
      assert_empty buffer
      buffer = "#{raw(one)}behind".b
      assert_equal expected(one["frame"]), described(*W.take_frame(buffer)), one["name"]
      assert_equal "behind", buffer
    end
  end

  def test_every_piece_of_a_frame_asks_for_more
    from("keepwarm", "frames.json").each do |one|
      data = raw(one)
      lengths = data.size < 300 ? 0...data.size : [*0...150, data.size / 2, data.size - 1]
      lengths.each { |length| assert_nil W.take_frame(data.byteslice(0, length)), "#{one["name"]}, #{length}" }
    end
  end

  def test_what_the_worker_sends_is_encoded
    from("worker", "frames.json").each { |one| assert_equal raw(one), encoded(one["frame"]), one["name"] }
  end

  def test_partials
    from("keepwarm", "partials.json").each do |one|
      buffer = raw(one)
      frames = []
      fault = nil
      begin
        while (frame = W.take_frame(buffer))
          frames << described(*frame)
        end
      rescue Keepwarm::Fault => error
        fault = error.name
      end
      assert_equal one["frames"].map { |frame| expected(frame) }, frames, one["name"]
      fault.nil? ? assert_nil(one["fault"], one["name"]) : assert_equal(one["fault"], fault, one["name"])
    end
  end

  def test_faults
    from("keepwarm", "faults.json").each do |one|
      error = assert_raises(Keepwarm::Fault, one["name"]) { described(*W.take_frame(raw(one))) }
      assert_equal one["fault"], error.name, one["name"]
    end
  end
end

# The transcripts, with a real connection; the test does what a worker's threads would.
class SessionsTest < Minitest::Test
  V = VectorsTest.new("sessions")

  # The wire of a worker for many requests, on a socket that nobody reads: what arrives is given to it directly.
  class Connection < Keepwarm::Threaded
    attr_reader :fault

    def fail(fault)
      @fault ||= fault.name
      end_of_wire
    end

    # The transcript has what the worker sends.
    def growth_sent
      @measuring = nil
    end

    def measure_forever(_growth); end

    def greet(frame)
      @limit = frame["streams"]
      @first_stream_credit = frame["stream_credit"]
      @allowance = Keepwarm::Allowance.new(frame["connection_credit"])
    end

    def welcome(payload)
      @first_credit, @credit, = Keepwarm::Wire.read_welcome(payload)
    end

    def receive(data)
      @buffer << data
      while (frame = Keepwarm::Wire.take_frame(@buffer))
        yield frame
      end
    rescue Keepwarm::Fault => error
      self.fail(error)
    end

    def request(id, whole)
      stream = begin_stream(id, whole)
      stream.instance_variable_set(:@allowance, Keepwarm::Allowance.new(@first_stream_credit)) unless whole
      stream
    end

    # What the application has not read by now it never will.
    def swallow(stream)
      unread = stream.parts&.sum(&:bytesize) || 0
      stream.parts&.clear
      consumed(stream, unread) if unread.positive?
    end
  end

  def test_sessions
    played = 0
    V.load("sessions.json").each do |one|
      last = one["steps"].last
      next if last["fault"] && last["from"] == "worker" # what a worker of ours never sends
      next if one["steps"].any? { |step| step.dig("frame", "flags")&.include?("WEBSOCKET") } # Rack has none

      played += 1
      play(one)
    end
    assert_operator played, :>, 20
  end

  def play(one)
    mine, theirs = UNIXSocket.pair
    connection = Connection.new(theirs, 1)
    welcomed = greeted = drained = false
    one["steps"].each do |step|
      frame = step["frame"]
      if step["from"] == "worker"
        connection.greet(frame) if frame["type"] == "HELLO"
        greeted ||= frame["type"] == "HELLO"
        ended(connection, frame)
        next
      end
      connection.receive(V.raw(step)) do |kind, flags, id, payload|
        if !welcomed
          raise Keepwarm::Fault.new("before_welcome", "") if kind != Keepwarm::Wire::WELCOME

          connection.welcome(payload)
          welcomed = true
        elsif kind == Keepwarm::Wire::REQUEST
          raise Keepwarm::Fault.new("after_drain", "") if drained
          raise Keepwarm::Fault.new("before_hello", "") unless greeted

          Keepwarm::Wire.decode_request(payload, flags)
          connection.request(id, flags & 1 == 1)
        else
          raise Keepwarm::Fault.new("before_hello", "") if kind == Keepwarm::Wire::LEAKS && !greeted

          drained ||= kind == Keepwarm::Wire::DRAIN
          connection.handle(kind, flags, id, payload)
        end
      end
      step["fault"].nil? ? assert_nil(connection.fault, one["name"]) : assert_equal(step["fault"], connection.fault, one["name"])
    end
  ensure
    [mine, theirs].each(&:close)
    connection&.growth&.finish
    connection&.fail(Keepwarm::Fault.new("over", "")) # its threads end
  end

  # The worker's own frame ends its stream, or what is measured.
  def ended(connection, frame)
    connection.growth_sent if frame["type"] == "GROWTH"
    stream = connection.instance_variable_get(:@streams)[frame["stream"]]
    return if stream.nil?

    connection.swallow(stream)
    over = %w[RESET TRAILERS].include?(frame["type"]) || (%w[RESPONSE DATA].include?(frame["type"]) && frame["flags"].include?("END"))
    connection.end_stream(stream) if over
  end
end

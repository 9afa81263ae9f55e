# frozen_string_literal: true

require "keepwarm/errors"

module Keepwarm
  # The worker wire, version 1: bytes to frames and back (spec/wire.md). Pure: no socket, no clock. Strings are binary.
  module Wire
    VERSION = 1

    # Frame types (§2).
    HELLO, WELCOME = 0x01, 0x02
    REQUEST, DATA, TRAILERS, RESPONSE = 0x10, 0x11, 0x12, 0x13
    INFORM, WANT, CREDIT, RESET, HALF_CLOSE = 0x14, 0x15, 0x16, 0x17, 0x18
    TEXT, BINARY, CLOSE = 0x20, 0x21, 0x22
    HIJACK = 0x19
    PING, PONG, DRAIN, BUSY, SAMPLES = 0x30, 0x31, 0x32, 0x33, 0x34
    LEAKS, GROWTH = 0x35, 0x36

    # Flags. END is the same bit on every type that has it.
    END_BODY = 0x01
    EXPECT, REPEATS, EARLY_HINTS, WEBSOCKET, TRAILERS_OK, USER = 0x02, 0x04, 0x08, 0x10, 0x20, 0x40 # REQUEST
    CLOSE_AFTER = 0x02 # RESPONSE

    # Reset codes (§5).
    CANCELLED, TIMEOUT, APP_ERROR, TOO_SHORT, INCOMPLETE, REFUSED = 1, 2, 3, 4, 5, 6

    MAX_PAYLOAD = 131_072
    MAX_CHUNK = 65_536 # of a body, in one frame
    MAX_REASON = 1_024 # bytes of a RESET's reason
    MAX_CLOSE_REASON = 123 # bytes of a CLOSE's reason: RFC 6455 §5.5, 125 less the code
    MAX_CREDIT = 2**31 - 1
    LEAST_CREDIT = 65_536 # §3: of each first credit
    UNKNOWN_LENGTH = 2**64 - 1 # of a chunked body
    FIXED_STRINGS = 11 # at the head of a REQUEST's string block

    HEAD = "NCCN" # length, type, flags, stream
    HEAD_SIZE = 10
    REQUEST_HEAD_SIZE = 24 # and content_length, count, text length
    REQUEST_NUMBERS = "Q>n@18nN" # those without content_length, in fewer numbers
    RESPONSE_WHOLE = "NCCNnnNa*a*" # and status, count, text length; then the text and the body, whatever their encodings
    RESPONSE_AGAIN = "@0Q>nQ>a*a*" # the same bytes in fewer numbers; replaces the content of the buffer

    NOTHING = "".b.freeze

    # What Keepwarm may send: type -> the flags it may carry, whether it belongs to a stream (nil: either), the least and
    # the most bytes of its payload.
    FROM_KEEPWARM = {
      WELCOME => [0, false, 18, MAX_PAYLOAD],
      REQUEST => [0x7F, true, 14, MAX_PAYLOAD],
      DATA => [END_BODY, true, 0, MAX_CHUNK],
      TRAILERS => [0, true, 6, MAX_PAYLOAD],
      CREDIT => [0, nil, 4, 4],
      RESET => [0, true, 2, 2 + MAX_REASON],
      HALF_CLOSE => [0, true, 0, 0],
      TEXT => [END_BODY, true, 0, MAX_CHUNK],
      BINARY => [END_BODY, true, 0, MAX_CHUNK],
      CLOSE => [0, true, 2, 2 + MAX_CLOSE_REASON],
      PING => [0, false, 8, 8],
      DRAIN => [0, false, 0, 0],
      LEAKS => [END_BODY, false, 0, 0]
    }.freeze
    ONLY_FROM_WORKER = [HELLO, RESPONSE, INFORM, WANT, PONG, BUSY, HIJACK, SAMPLES, GROWTH].freeze
    private_constant :FROM_KEEPWARM, :ONLY_FROM_WORKER

    module_function

    # Raises `Fault` unless the four parts of the head of a frame from Keepwarm go together (§2).
    def check_head(length, kind, flags, stream)
      raise Fault.new("too_long", "a frame of #{length} bytes, over the limit of #{MAX_PAYLOAD}") if length > MAX_PAYLOAD

      allowed, on_stream, least, most = FROM_KEEPWARM[kind]
      if allowed.nil?
        name = ONLY_FROM_WORKER.include?(kind) ? "direction" : "unknown_type"
        raise Fault.new(name, "#{typed(kind)}, which Keepwarm never sends")
      end
      if flags & ~allowed != 0 || (kind == REQUEST && flags & (WEBSOCKET | END_BODY) == WEBSOCKET)
        raise Fault.new("flags", format("flags 0x%02x on %s", flags, typed(kind)))
      end
      raise Fault.new("stream_id", "#{typed(kind)} on stream #{stream}") if !on_stream.nil? && on_stream != (stream != 0)
      return if length.between?(least, most)

      raise Fault.new(length < least ? "too_short" : "too_long", "#{typed(kind)} with a payload of #{length} bytes")
    end

    # The first frame of `buffer`, taken off it: `[type, flags, stream, payload]`, or nil while it is incomplete.
    def take_frame(buffer)
      return nil if buffer.bytesize < HEAD_SIZE

      length, kind, flags, stream = buffer.unpack(HEAD)
      check_head(length, kind, flags, stream)
      return nil if buffer.bytesize < HEAD_SIZE + length

      frame = [kind, flags, stream, buffer.byteslice(HEAD_SIZE, length)]
      buffer.replace(buffer.byteslice(HEAD_SIZE + length, buffer.bytesize))
      frame
    end

    # -- payloads Keepwarm sends: each of a frame whose head `check_head` has passed -----------------------------------

    # A REQUEST as `[content_length, strings, body]`.
    def decode_request(payload, flags)
      strings, at = strings(payload, 8)
      check_request(strings.size, flags)
      body = payload.byteslice(at, payload.bytesize)
      raise Fault.new("too_long", "a REQUEST with #{body.bytesize} bytes of body") if body.bytesize > MAX_CHUNK

      [payload.unpack1("Q>"), strings, body]
    end

    # Raises `Fault` unless `count` strings are the fixed ones and whole pairs, the user's with USER (§4).
    def check_request(count, flags)
      return if count >= FIXED_STRINGS + (flags & USER == 0 ? 0 : 2) && count.odd?

      raise Fault.new("fields", "a REQUEST of #{count} strings")
    end

    # `[version_min, version_max, stream_credit, connection_credit, pairs]` (§3).
    def decode_welcome(payload)
      least, most, *credits = payload.unpack("nnNN")
      raise Fault.new("version", "a WELCOME with versions #{least} to #{most}") unless least >= 1 && least <= most

      credits.each do |amount|
        raise Fault.new("credit", "a first credit of #{amount}") unless amount.between?(LEAST_CREDIT, MAX_CREDIT)
      end
      [least, most, *credits, pairs(payload, 12)]
    end

    # A WELCOME that this adapter can serve: `[stream_credit, connection_credit, {name => value}]`.
    def read_welcome(payload)
      least, most, stream_credit, connection_credit, about = decode_welcome(payload)
      unless VERSION.between?(least, most)
        raise Fault.new("version", "Keepwarm supports versions #{least} to #{most} of the wire protocol, this adapter version #{VERSION}")
      end
      [stream_credit, connection_credit, about.to_h { |pair| pair.map { |one| one.dup.force_encoding("UTF-8").scrub } }]
    end

    # A list of `[name, value]`.
    def decode_trailers(payload)
      pairs(payload, 0)
    end

    # The number of bytes that may be sent beyond what could be before (§6).
    def decode_credit(payload)
      amount = payload.unpack1("N")
      raise Fault.new("credit", "a CREDIT of #{amount}") unless amount.between?(1, MAX_CREDIT)

      amount
    end

    # `[code, reason]` of a RESET (§5) or a CLOSE (§7).
    def decode_reason(payload)
      reason = payload.byteslice(2, payload.bytesize).force_encoding("UTF-8")
      raise Fault.new("utf8", "a reason that is not UTF-8") unless reason.valid_encoding?

      [payload.unpack1("n"), reason]
    end

    # -- frames a worker sends ------------------------------------------------------------------------------------------

    # Any frame, whole.
    def frame(kind, flags, stream, payload = NOTHING)
      [payload.bytesize, kind, flags, stream, payload].pack("NCCNa*")
    end

    # `about`: what the worker says of itself, name -> value (§3).
    def hello(streams, stream_credit, connection_credit, about)
      frame(HELLO, 0, 0, [VERSION, streams, stream_credit, connection_credit].pack("nNNN") << block(about.to_a.flatten))
    end

    # `text`: `count` strings, already joined by NUL.
    def response(stream, flags, status, count, text, body = NOTHING)
      [8 + text.bytesize + body.bytesize, RESPONSE, flags, stream, status, count, text.bytesize, text, body].pack(RESPONSE_WHOLE)
    end

    # An informational response; `text` as in `response`.
    def inform(stream, status, count, text)
      [8 + text.bytesize, INFORM, 0, stream, status, count, text.bytesize, text, NOTHING].pack(RESPONSE_WHOLE)
    end

    # The fields after a body, which end it; `text` as in `response`.
    def trailers(stream, count, text)
      [6 + text.bytesize, TRAILERS, 0, stream, count, text.bytesize, text].pack("NCCNnNa*")
    end

    # Lets Keepwarm send `amount` bytes more on `stream`, or on the connection when it is 0.
    def credit(stream, amount)
      [4, CREDIT, 0, stream, amount].pack("NCCNN")
    end

    # Where this worker was (§10). `stacks`: pairs of a stack and its microseconds.
    def samples(request, dropped, stacks)
      frame(SAMPLES, 0, 0, [request, dropped].pack("NN") << block(stacks.flatten))
    end

    # How what this worker holds has changed (§11). `changes`: pairs of a name and a number, as strings.
    def growth(request, microseconds, changes)
      frame(GROWTH, 0, 0, [request, microseconds].pack("NN") << block(changes.flatten))
    end

    # Ends the response here, incomplete. A long reason is cut at a character's border.
    def reset(stream, code, reason = "")
      frame(RESET, 0, stream, [code, utf8_prefix(reason, MAX_REASON)].pack("na*"))
    end

    # Closes a WebSocket. A long reason is cut at a character boundary.
    def close(stream, code, reason = "")
      frame(CLOSE, 0, stream, [code, utf8_prefix(reason, MAX_CLOSE_REASON)].pack("na*"))
    end

    # A string block (§2.1).
    def block(strings)
      text = strings.map(&:b).join("\0").b
      raise ArgumentError, "a string that contains NUL cannot be sent" if !strings.empty? && text.count("\0") != strings.size - 1

      [strings.size, text.bytesize, text].pack("nNa*")
    end

    # The longest beginning of `text` that takes at most `limit` bytes in UTF-8.
    def utf8_prefix(text, limit)
      text = text.encode("UTF-8", invalid: :replace, undef: :replace).scrub
      text.bytesize <= limit ? text : text.byteslice(0, limit).scrub("")
    end

    # -- parts ----------------------------------------------------------------------------------------------------------

    # The strings of the block that begins at `start`, and where it ends.
    def strings(payload, start)
      count, length = payload.byteslice(start, 6).unpack("nN")
      start += 6
      raise Fault.new("too_short", "a string block longer than its frame") if length > payload.bytesize - start

      found = count.zero? && length.zero? ? [] : split(payload.byteslice(start, length))
      return [found, start + length] if found.size == count

      raise Fault.new("strings", "a string block of #{found.size} strings instead of #{count}")
    end

    # One string more than there are NULs; Ruby's own `split` gives none for an empty text.
    def split(text)
      text.empty? ? [NOTHING] : text.split("\0", -1)
    end

    # A block of names and values in turn that is the rest of the payload.
    def pairs(payload, start)
      strings, at = strings(payload, start)
      rest = payload.bytesize - at
      raise Fault.new("too_long", "#{rest} bytes after a string block") unless rest.zero?
      raise Fault.new("fields", "an odd number of strings (#{strings.size}) in pairs of names and values") if strings.size.odd?

      strings.each_slice(2).to_a
    end

    def typed(kind)
      format("a frame of type 0x%02x", kind)
    end
    private_class_method :strings, :pairs, :typed
  end
end

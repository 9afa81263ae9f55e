# frozen_string_literal: true

require "keepwarm/log"
require "keepwarm/wire"

module Keepwarm
  # A response's fields: from what an application gives to the text of a string block (spec/wire.md §2.1, §5).
  #
  # Names come back again and again, so each is checked and classified once and remembered. Values are checked by looking
  # through the joined text once. After `take`: `text` (its encoding does not matter), `count` strings in it, `length`, `close`,
  # `hijack`, and `chunked`: the application says that it chunks the body itself.
  class Fields
    PLAIN, LENGTH, TYPE, HOP_BY_HOP, CONNECTION, PRIVATE, CODING = 0, 1, 2, 3, 4, 5, 6
    # RFC 9110 §7.6.1, and RFC 9112 §6.1: these speak about a connection, which is Keepwarm's. `Trailer` travels.
    KINDS = {
      "content-length" => LENGTH, "content-type" => TYPE, "connection" => CONNECTION, "keep-alive" => HOP_BY_HOP,
      "proxy-connection" => HOP_BY_HOP, "te" => HOP_BY_HOP, "transfer-encoding" => CODING, "upgrade" => HOP_BY_HOP,
      "status" => PRIVATE # of CGI; Rack forbids it
    }.freeze
    TOKEN = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+\z/.freeze # RFC 9110 §5.6.2
    # Bytes of fields that always fit a RESPONSE beside its first body bytes and a Content-Length that the adapter adds.
    MAX_TEXT = Wire::MAX_PAYLOAD - Wire::MAX_CHUNK - 64
    MAX_REMEMBERED = 1_024 # names; an application that invents them without end must not fill the memory
    MAX_PATTERNS = 256
    MAX_LENGTH = 10**19
    private_constant :KINDS, :TOKEN, :MAX_REMEMBERED, :MAX_PATTERNS, :MAX_LENGTH

    attr_reader :text, :count, :length, :close, :hijack, :chunked

    # `lines`: whether a value may be several, one a line (Rack 2; in Rack 3 such a value is an Array).
    def initialize(lines:)
      @lines = lines
      @text = Wire::NOTHING
      @parts = nil # names and values in turn
      @patterns = [] # of `pack`, by the number of parts
      @kinds = Hash.new { |kinds, name| classified(kinds, name) }
    end

    # Reads the headers of a response with this status. Raises if they are invalid.
    def take(headers, status)
      clear
      bodiless = status == 204 || status == 304
      parts = @parts
      headers.each do |name, value|
        kind = @kinds[name]
        if kind == PLAIN || (kind == TYPE && !bodiless)
          if value.instance_of?(String)
            parts << name << value
          else
            add(name, value)
          end
        elsif kind == LENGTH
          add_length(name, value, bodiless)
        elsif kind != TYPE
          special(kind, name, value)
        end
      end
      count = parts.size
      text = count == 0 ? Wire::NOTHING : parts.pack(pattern(count)) # one call for all, whatever their encodings
      return take_lines(headers, status) if count != 0 && text.count("\0\r\n") != count - 1 # a NUL between two, and nothing else of these
      return without_named(headers, status) if @named
      return without_length(headers, status) if @chunked && @length

      size = text.bytesize + 1 # each string with its NUL
      raise ArgumentError, "the headers take #{size} bytes; the limit is #{MAX_TEXT}" if size > MAX_TEXT

      @text = text
      @count = count
    end

    # Holds nothing of the last response.
    def clear
      @parts = []
      @text = Wire::NOTHING
      @count = 0
      @length = @hijack = @named = nil
      @close = @chunked = false
    end

    # The application gave no `Content-Length`, and its body has one all the same.
    def add_computed_length(length)
      @text = "#{@text}#{"\0" unless @count.zero?}content-length\0#{length}"
      @count += 2
    end

    private

    def classified(kinds, name)
      raise TypeError, "a header name is #{name.class} instead of String: #{name.inspect}" unless name.is_a?(String)

      lower = name.downcase
      kind = lower.start_with?("rack.") ? PRIVATE : KINDS.fetch(lower, PLAIN)
      raise ArgumentError, "invalid header name: #{name.inspect}" unless name.match?(TOKEN)

      kinds[name.dup.freeze] = kind if kinds.size < MAX_REMEMBERED
      kind
    end

    # Strings with a NUL after each except the last.
    def pattern(count)
      return @patterns[count] ||= "#{"Z*" * (count - 1)}a*" if count <= MAX_PATTERNS

      "#{"Z*" * (count - 1)}a*"
    end

    # Any value: one string, several, or what has a form as a string.
    def add(name, value)
      if value.is_a?(Array)
        value.each { |one| add(name, one) }
      elsif !value.nil?
        @parts << name << value.to_s
      end
    end

    # RFC 9110 §8.6: digits and nothing else.
    def add_length(name, value, bodiless)
      return if value.nil? || bodiless

      value = value.first if value.is_a?(Array) && value.uniq.size == 1
      digits = value.to_s
      length = digits.to_i
      unless (length.to_s == digits && length >= 0 && length < MAX_LENGTH) || digits.match?(/\A\d{1,19}\z/)
        raise ArgumentError, "invalid Content-Length: #{value.inspect}"
      end
      raise ArgumentError, "conflicting values of Content-Length: #{@length} and #{length}" if @length && @length != length

      @length = length
      @parts << name << digits
    end

    def special(kind, name, value)
      if kind == PRIVATE
        @hijack = value if name.casecmp?("rack.hijack")
        return
      end
      return @chunked = true if kind == CODING && [value].flatten.map { |one| one.to_s.strip.downcase } == ["chunked"]

      options = kind == CONNECTION ? value.to_s.downcase.split(",").map(&:strip).reject(&:empty?) : []
      @close = true if options.include?("close")
      return if options == ["close"]

      named = options - ["close"]
      @named = (@named || []) | named unless named.empty?
      Log.warn_once(
        [:hop_by_hop, name.downcase],
        "the application sends the connection-specific header #{name}; it is not forwarded"
      )
    end

    # RFC 9110 §7.6.1: what `Connection` names is the connection's too.
    def without_named(headers, status)
      named = @named - ["content-length"]
      close = @close
      kept = pairs(headers).reject { |name, _| named.include?(name.downcase) || KINDS[name.downcase] == CONNECTION }
      take(kept, status)
      @close = close
    end

    # RFC 9112 §6.3: the length of a chunked body is in its chunks.
    def without_length(headers, status)
      take(pairs(headers).reject { |name, _| KINDS[name.downcase] == LENGTH }, status)
    end

    # Lines of a value are values of their own in Rack 2; anything else that ends a line or a string is refused.
    def take_lines(headers, status)
      split = false
      split_up = pairs(headers).flat_map do |name, value|
        next [[name, value]] if name.downcase.start_with?("rack.")

        Array(value).flat_map do |one|
          one = one.to_s.b
          lines = @lines && one.include?("\n") ? one.split("\n") : [one]
          split ||= lines.size > 1 || lines.first != one
          raise ArgumentError, "CR, LF or NUL in the value of the header #{name}" if lines.any? { |line| line.match?(/[\r\n\0]/n) }

          lines.map { |line| [name, line] }
        end
      end
      raise ArgumentError, "CR, LF or NUL in a header value" unless split

      take(split_up, status)
    end

    # All that headers can be relied on for is an `each` with a block.
    def pairs(headers)
      all = []
      headers.each { |name, value| all << [name, value] }
      all
    end
  end
end

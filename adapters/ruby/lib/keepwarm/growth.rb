# frozen_string_literal: true

require_relative "census"
require_relative "containers"
require_relative "wire"

module Keepwarm
  # What a worker holds, and how that changes from one request to the next, while Keepwarm measures it (spec/wire.md §11).
  #
  # There is none of these, and this file is not loaded, before LEAKS. `begin` and then `measure` after each request, from a stack that holds nothing of the
  # request; `finish` at the end.
  class Growth
    MOST = 66 # changes of each form, three of which make 198 of the 200 that a frame may have
    NAME = 400 # bytes of a name: the limit of a frame is 128 KiB

    # What to remember is one string of each form: a number of objects that never changes, and a size that is known.
    Remembered = Struct.new(:objects, :held, :made)
    DEPTH = 32 # calls of a method that is not written in Ruby, each with hundreds of bytes
    ONE = [nil].freeze
    private_constant :MOST, :NAME, :Remembered, :DEPTH, :ONE

    # `app`: the application, which nothing of its own need refer to.
    def initialize(app)
      @census = Census.new
      @containers = Containers.new(app)
      @last = Remembered.new("".b, "".b, "".b)
      @memory = nil
    end

    # The frame for what has changed since the last one; the first says nothing. `request`: the stream that is over, 0 in the first.
    def measure(request)
      begun = now
      counted if @memory.nil? # what only the first count makes is not the application's
      changes = counted
      Wire.growth(request, (now - begun) / 1_000, request.zero? ? [] : changes)
    end

    # Frees what measuring needed.
    def finish
      @census.finish
    end

    private

    # The containers first: what it takes to find them is garbage when the objects are counted.
    def counted
      found = held.flatten.join("\0") # one object, as what is remembered, however much it is
      objects, made, memory = @census.take([*@last, found])
      changes = found.split("\0").each_slice(2).to_a + changed(:objects, objects, "object;") + changed(:made, made, "made;")
      changes.unshift(["memory", (memory - @memory).to_s]) unless @memory.nil? || memory == @memory
      @memory = memory
      changes
    end

    def held
      sizes, complete = @containers.sizes
      # Of a search that was cut, only what both times have found can be compared.
      changed(:held, sizes, "held;", !complete)
    end

    # The largest changes from what is remembered, which becomes `now`.
    def changed(form, now, prefix, common = false)
      before = Growth.parsed(@last[form])
      @last[form] = Growth.joined(now)
      names = common ? now.keys & before.keys : now.keys | before.keys
      changes = names.map { |name| [name, now.fetch(name, 0) - before.fetch(name, 0)] }.reject { |_, change| change.zero? }
      changes.max_by(MOST) { |_, change| change.abs }.map { |name, change| [prefix + name, change.to_s] }
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    end

    class << self
      # Runs the block further down this thread's stack than anything else here. Ruby's collector takes whatever looks like a reference for one, also what calls
      # that are over have left where later ones now wait: so what waits and what measures must not stand where an application has been.
      def below(depth = DEPTH, &block)
        return block.call if depth.zero?

        result = nil
        ONE.each { result = below(depth - 1, &block) }
        result
      end

      def joined(counts)
        counts.flat_map { |name, count| [name, count.to_s] }.join("\0")
      end

      def parsed(text)
        text.split("\0", -1).each_slice(2).to_h { |name, count| [name, count.to_i] }
      end

      # A name as the wire has it: UTF-8, not too long, without what ends a string there.
      def cleaned(name)
        name = name.b.byteslice(0, NAME).force_encoding("UTF-8").scrub("?") if name.bytesize > NAME || !name.valid_encoding? || name.encoding != Encoding::UTF_8
        name.tr("\0\n", "  ")
      end
    end
  end
end

# frozen_string_literal: true

require "keepwarm/wire"

module Keepwarm
  # Where the time of requests goes: stacks, noted at each SIGURG while Keepwarm profiles this worker (spec/wire.md §10).
  #
  # Nothing runs between profiles: no thread, no timer, only a handler that is never called. Keepwarm sets the rate, and a sample weighs the time since the last
  # one, so that a signal which came late, or was one with the next, costs nothing.
  class Profile
    DEPTH = 200 # frames of a stack; of a deeper one, the innermost
    STACKS = 1_000 # distinct ones that may wait here; the samples of more are counted and dropped
    NAME = 200 # characters of a frame
    SEND_EVERY = 250_000_000 # nanoseconds: of a request that continues
    FRAME_SIZE = 100_000 # bytes of stacks in one frame, whose limit is 128 KiB
    NAMES = 20_000 # that are remembered
    WAITING = "(waiting)"
    LOCKED = "app;(held Ruby's lock: no stack)"

    # The adapter's files in which a request is in a phase of its own. The innermost of them counts.
    PHASES = { "input.rb" => "request body", "rewindable_input.rb" => "request body", "response.rb" => "response" }.freeze
    # Methods of `Service` that call what comes after the response.
    AFTER = %w[close finish].freeze
    OWN = "#{__dir__}/"
    private_constant :DEPTH, :STACKS, :NAME, :SEND_EVERY, :FRAME_SIZE, :NAMES, :WAITING, :LOCKED, :PHASES, :AFTER, :OWN

    # Whether there is something to send: never but while Keepwarm profiles, which is all that a request looks at.
    attr_reader :pending

    def initialize
      @pending = nil # request => stack => nanoseconds
      @kept = @dropped = @sent = 0
      @last = nil # when the last signal came
      @cpu = @delay = 0
      @cpus = {} # of other threads
      @names = {}
      @delays = nil
      @directory = "#{Dir.pwd}/"
    end

    # From now on, at each signal: the block gives `request, thread` of each request in work.
    #
    # A handler runs in the main thread, and its calls stand above those that the signal interrupted. It raises nothing, which would be raised there.
    def watch(connection, &requests)
      trap("URG") do
        note(caller_locations(0), &requests)
        send_beside(connection) if due?
      rescue StandardError
        @dropped += 1
      end
    end

    # All that has been noted, as frames.
    def take
      pending = @pending || {}
      @pending = nil
      dropped = @dropped
      @kept = @dropped = 0
      @sent = now
      frames = String.new(encoding: Encoding::BINARY)
      pending.each do |request, stacks|
        parts(stacks) do |part|
          frames << Wire.samples(request, dropped, part)
          dropped = 0
        end
      end
      frames
    end

    # The profile may be over: the time until the next signal is not a sample's. Gives what has not been sent.
    def end
      @last = nil
      @names.clear
      @cpus.clear
      @delays&.close
      @delays = nil
      @pending ? take : Wire::NOTHING
    end

    private

    def note(main)
      time = now
      weight = @last.nil? ? 0 : time - @last
      @last = time
      computing = main_computes?(weight)
      return if weight.zero?

      yield.each do |request, thread|
        thread.equal?(Thread.main) ? add(request, stack(main, !computing), weight) : note_thread(request, thread, weight)
      end
    end

    # The handler runs when the main thread gets Ruby's lock, which one that computes gives up when it waits, or after a tenth of a second. What it computed
    # before it waited has no stack, and must not be taken for the wait.
    def note_thread(request, thread, weight)
      waiting = thread.status == "sleep"
      computed = [cpu_of(thread), weight].min
      computed = 0 unless waiting
      add(request, LOCKED, computed) if computed.positive?
      frames = thread.backtrace_locations
      add(request, stack(frames, waiting), weight - computed) if frames && weight > computed
    end

    # Nanoseconds that a thread has used a processor since the last signal; 0 where Ruby does not tell which thread of the system it is (3.0).
    def cpu_of(thread)
      id = thread.respond_to?(:native_thread_id) ? thread.native_thread_id : nil
      return 0 if id.nil?

      cpu = Process.clock_gettime((~id << 3) | 6, :nanosecond) # the clock of a thread, as glibc makes it
      before = @cpus[id] || cpu
      @cpus[id] = cpu
      cpu - before
    rescue SystemCallError
      0
    end

    def add(request, stack, weight)
      stacks = (@pending ||= {})[request] ||= {}
      if stacks.key?(stack)
        stacks[stack] += weight
      elsif @kept < STACKS
        @kept += 1
        stacks[stack] = weight
      else
        @dropped += 1
      end
    end

    # Whether the main thread used a processor, or would have had there been one, for half of the time since the last signal.
    def main_computes?(weight)
      cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
      delay = delay_of_main
      ran = cpu - @cpu + delay - @delay
      @cpu = cpu
      @delay = delay
      2 * ran >= weight
    end

    # How long it has waited for a processor, in nanoseconds; 0 where the system does not say.
    def delay_of_main
      @delays ||= File.open("/proc/self/schedstat", "rb")
      @delays.pread(100, 0).split[1].to_i
    rescue SystemCallError
      0
    end

    # No lock can be taken in a signal handler, so a thread sends.
    def send_beside(connection)
      @sent = now
      Thread.new { connection.send(take) }
    end

    def due?
      @pending && now - @sent >= SEND_EVERY
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    end

    # A stack as the wire has it, of frames with the innermost first.
    def stack(frames, waiting)
      names = []
      phase = nil
      outer = nil
      frames.each do |frame|
        name = name_of(frame)
        next names << name unless name.is_a?(Array)

        phase ||= name[0]
        outer = names.size
        break if name[1]
      end
      names = names.first(outer) if outer # what calls the adapter is not the application's
      names[DEPTH..] = ["..."] if names.size > DEPTH
      names << (phase || "app")
      names.reverse!
      names << WAITING if waiting
      names.join(";")
    end

    # A frame of the application: its name. One of the adapter: the phase that it begins, and whether a request begins there.
    def name_of(frame)
      path = frame.path.to_s
      label = frame.label.to_s
      key = [path, label]
      name = @names[key]
      return name if name

      name = path.start_with?(OWN) ? own(path, frame.base_label) : cleaned("#{label} (#{short(path)})")
      @names[key] = name if @names.size < NAMES
      name
    end

    def own(path, method)
      file = path.delete_prefix(OWN)
      in_service = file == "service.rb"
      [in_service && AFTER.include?(method) ? "after response" : PHASES[file], in_service && method == "run"].freeze
    end

    # Without what has a meaning between frames.
    def cleaned(name)
      name = name[0, NAME].encode("UTF-8", invalid: :replace, undef: :replace).scrub
      name.tr(";\0\n", ",  ").freeze
    end

    # A path as a person would say it: below the directory of the application, or of the gems.
    def short(path)
      return path.delete_prefix(@directory) if path.start_with?(@directory) && !path.include?("/gems/")

      path[%r{/gems/([^/]+/.*)\z}, 1] || path[%r{/ruby/\d[^/]*/(.*)\z}, 1] || path[%r{/vendor_ruby/(.*)\z}, 1] || path
    end

    # Pairs for frames that are not too long, with microseconds.
    def parts(stacks)
      part = []
      size = 0
      stacks.each do |stack, nanoseconds|
        if size + stack.bytesize > FRAME_SIZE && !part.empty?
          yield part
          part = []
          size = 0
        end
        part << [stack, (nanoseconds / 1_000).to_s]
        size += stack.bytesize + 24
      end
      yield part unless part.empty?
    end
  end
end

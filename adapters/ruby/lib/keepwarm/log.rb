# frozen_string_literal: true

module Keepwarm
  # The worker's log: standard error, one record per write, which Keepwarm marks with the app's name and the worker's.
  module Log
    HERE = File.join(__dir__, "")
    FRAMES = 200 # of a backtrace, beneath its first
    CONTINUED = "\x1F" # ends a line that the next one continues
    private_constant :HERE, :FRAMES, :CONTINUED

    @said = {}

    module_function

    # What the application prints arrives line by line.
    def prepare_streams
      $stdout.sync = $stderr.sync = true
    end

    # Writes one record. A log that cannot be written must not end the worker.
    def write(text)
      $stderr.write("#{one_record(text)}\n")
    rescue IOError, SystemCallError, EncodingError
      nil # closed or full: there is nowhere left to say so
    end

    # Each line but the last marked as continued (spec/wire.md §1). Not if the application has replaced standard error.
    def one_record(text)
      text = text.b.chomp
      $stderr.equal?(STDERR) ? text.gsub("\n", "#{CONTINUED}\n") : text
    end

    # Writes one record for each `key` in the life of the worker.
    def warn_once(key, text)
      said = Log.instance_variable_get(:@said)
      return if said.key?(key)

      said[key] = true
      write(text)
    end

    # Writes an exception as Ruby itself would print it, with its causes, without the adapter's own frames.
    def exception(error)
      write(described(error))
    end

    # As `exception` writes it.
    def described(error)
      lines = []
      seen = {}.compare_by_identity
      until error.nil? || seen[error]
        seen[error] = true
        frames = own_frames_removed(error.backtrace || [])
        lines << "#{frames.first || "keepwarm"}: #{message_of(error)} (#{error.class})"
        elided(frames.drop(1)).each { |frame| lines << "\t#{frame}" }
        error = error.cause
      end
      lines.join("\n")
    end

    # A recursion without end has ten thousand, which say no more than a few.
    def elided(frames)
      told = frames.map { |frame| "from #{frame}" }
      return told if told.size <= FRAMES

      half = FRAMES / 2
      [*told.first(half), " ... #{told.size - (2 * half)} levels...", *told.last(half)]
    end

    # The part of a backtrace that begins with the application; all of it when the adapter itself failed.
    def own_frames_removed(frames)
      last = frames.rindex { |frame| !frame.start_with?(HERE) }
      return frames if last.nil?

      kept = frames[0..last]
      # The frame of the program itself, beneath the adapter's.
      kept.size > 1 && kept.last.include?("keepwarm-worker") ? own_frames_removed(kept[0..-2]) : kept
    end

    def message_of(error)
      error.message.to_s.scrub
    rescue Exception # rubocop:disable Lint/RescueException -- an exception whose own `message` fails
      "?"
    end
  end
end

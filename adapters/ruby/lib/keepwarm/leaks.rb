# frozen_string_literal: true

require "keepwarm/log"

module Keepwarm
  # Resets what a request changed in the process and Ruby does not reset by itself: working directory, umask, time zone.
  #
  # Watching costs nothing: the few methods that change such things also leave a note.
  # `watch` before the application is loaded, `settle` after: what holds then is normal. `undo` after each request, when there is no other.
  class Leaks
    CURRENT = { "directory" => -> { Dir.pwd }, "umask" => -> { File.umask }, "time zone" => -> { ENV["TZ"] } }.freeze
    RESTORE = {
      "directory" => ->(path) { Dir.chdir(path) }, "umask" => ->(mask) { File.umask(mask) }, "time zone" => ->(name) { ENV["TZ"] = name }
    }.freeze
    private_constant :CURRENT, :RESTORE

    def initialize
      @noted = {}
      @normal = {}
    end

    # Whether there is something to undo.
    def noted?
      !@noted.empty?
    end

    # Has the methods leave their notes.
    def watch
      noted = @noted
      # A `Dir.chdir` with a block undoes itself.
      note(Dir, :chdir) { |_, block| noted["directory"] = true unless block }
      note(File, :umask) { |arguments, _| noted["umask"] = true unless arguments.empty? }
      note(ENV, :[]=, :store, :delete) { |arguments, _| noted["time zone"] = true if arguments.first == "TZ" }
    end

    # The application is loaded; what it has set up is what each request begins with.
    def settle
      @normal = CURRENT.transform_values(&:call)
      @noted.clear
    end

    # Restores everything that was noted, and says once what it was.
    def undo
      @noted.keys.each do |what|
        next if CURRENT[what].call == @normal[what]

        RESTORE[what].call(@normal[what])
        Log.warn_once([:leak, what], "a request changed the #{what} of its process; it is restored after each request")
      end
    rescue SystemCallError => error
      Log.exception(error)
    ensure
      @noted.clear
    end

    private

    def note(object, *names, &action)
      noting = Module.new do
        names.each do |name|
          define_method(name) do |*arguments, &block|
            action.call(arguments, block)
            super(*arguments, &block)
          end
        end
      end
      object.singleton_class.prepend(noting)
    end
  end
end

# frozen_string_literal: true

require "socket"
require "keepwarm/log"

module Keepwarm
  # What holds for the whole worker process: its descriptor, its signals, its children.
  module WorkerProcess
    # Makes a forked child let go of the wire at once.
    module ForkHook
      def _fork
        super.tap { |pid| WorkerProcess.in_child if pid.zero? }
      end
    end

    @connection = nil

    module_function

    # The wire's socket, from `KEEPWARM_FD`, made private to this process (spec/wire.md §1).
    def take_socket
      number = ENV.delete("KEEPWARM_FD")
      unless number&.match?(/\A\d+\z/)
        abort "keepwarm: this is a worker process: start it with `keepwarm run`, which sets KEEPWARM_FD"
      end
      socket = UNIXSocket.for_fd(Integer(number, 10))
      socket.close_on_exec = true
      socket
    end

    # From now on a forked child can never write to this connection. Where Ruby has no hook for that (3.0), `Connection` sees by
    # the process id that the wire is not the child's.
    def keep_from_children(connection)
      WorkerProcess.instance_variable_set(:@connection, connection)
      Process.singleton_class.prepend(ForkHook) if Process.respond_to?(:_fork)
    end

    def in_child
      @connection&.on_fork
    end

    # RACK_ENV as Puma sets it, but that what is not said to be development is not. `rails`: RAILS_ENV, too, as Rails will take it.
    def settle_environment(rails: false)
      ENV["RACK_ENV"] ||= ENV["APP_ENV"] || ENV["RAILS_ENV"] || "production"
      ENV["RAILS_ENV"] ||= ENV["RACK_ENV"] if rails
    end

    # Ctrl-C reaches the whole group and is Keepwarm's to coordinate; a stuck worker shows its stacks on SIGQUIT.
    #
    # SIGINT gets a handler that does nothing: ignored, it would be ignored in the programs that the application starts.
    def prepare_signals
      trap("INT") { nil }
      trap("QUIT") { Log.write(stacks) }
    end

    # Calls the block on SIGTERM, in the main thread.
    def on_terminate(&action)
      trap("TERM", &action)
    end

    # Where every thread is.
    def stacks
      Thread.list.map do |thread|
        frames = thread.backtrace || []
        frames = frames.drop(frames.index { |frame| !frame.start_with?(File.join(__dir__, "worker_process.rb")) } || 0)
        "thread #{thread.name || thread.inspect} (#{thread.status})\n#{frames.map { |frame| "\t#{frame}\n" }.join}"
      end.join
    end

    # Loaded objects stay: the collector need not move them from one generation to the next during requests.
    def settle_memory
      return Process.warmup if Process.respond_to?(:warmup) # Ruby 3.3

      3.times { GC.start }
    end
  end
end

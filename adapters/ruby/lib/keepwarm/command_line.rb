# frozen_string_literal: true

require "keepwarm/hooks"
require "keepwarm/template"
require "keepwarm/worker"

module Keepwarm
  # `keepwarm-worker ENTRY [--threads N] [--preload]`
  module CommandLine
    USAGE = "keepwarm: usage: keepwarm-worker ENTRY [--threads N] [--preload], where ENTRY is a config.ru or a Ruby file"
    MOST_THREADS = 65_535 # spec/wire.md §3
    private_constant :USAGE, :MOST_THREADS

    module_function

    # Runs a worker until it is told to stop; gives the exit status.
    def run(arguments)
      preload = !arguments.delete("--preload").nil?
      entry, threads = options(arguments)
      arguments.clear # the application's own arguments: none
      WorkerProcess.prepare_signals
      Log.prepare_streams
      socket = WorkerProcess.take_socket
      worker = Worker.boot(entry)
      return 1 unless worker

      socket = Template.serve(socket) if preload
      return 1 unless Hooks.after_fork_worked?

      serve(worker, socket, threads)
    end

    def serve(worker, socket, threads)
      owner = $$
      worker.serve(socket, threads)
    ensure
      Hooks.before_shutdown if $$ == owner # what a request has forked comes here too
    end

    def options(arguments)
      rest = arguments.dup
      threads = 1
      if (at = rest.index("--threads"))
        _, number = rest.slice!(at, 2)
        threads = number.to_s.match?(/\A\d{1,5}\z/) ? number.to_i : 0
        abort "keepwarm: --threads takes a number from 1 to #{MOST_THREADS}" unless threads.between?(1, MOST_THREADS)
      end
      abort USAGE if rest.size != 1 || rest.first.start_with?("--")

      [rest.first, threads]
    end
    private_class_method :serve, :options
  end
end

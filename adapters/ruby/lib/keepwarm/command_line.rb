# frozen_string_literal: true

require "keepwarm/hooks"
require "keepwarm/puma_config"
require "keepwarm/signals"
require "keepwarm/template"
require "keepwarm/worker"

module Keepwarm
  # `keepwarm-worker ENTRY [--threads N] [--preload] [--puma FILE]`, and `keepwarm-worker --read-puma FILE` for `keepwarm run`
  module CommandLine
    USAGE = "keepwarm: usage: keepwarm-worker ENTRY [--threads N] [--preload] [--puma FILE], where ENTRY is a config.ru or a Ruby file"
    MOST_THREADS = 65_535 # spec/wire.md §3
    private_constant :USAGE, :MOST_THREADS

    module_function

    # Runs a worker until it has to stop; returns the exit status.
    def run(arguments)
      return read_puma(arguments[1]) if arguments[0] == "--read-puma"

      preload = !arguments.delete("--preload").nil?
      puma = option(arguments, "--puma")
      entry, threads = options(arguments)
      arguments.clear # the application's own arguments: none
      WorkerProcess.prepare_signals
      Signals.watch
      Log.prepare_streams
      socket = WorkerProcess.take_socket
      WorkerProcess.settle_environment
      register_hooks(puma) if puma
      worker = Worker.boot(entry)
      return 1 unless worker

      socket = Template.serve(socket) if preload
      return 1 unless Hooks.after_fork_worked?

      serve(worker, socket, threads, first: !preload && Hooks.first_worker?)
    end

    # What the file says, on standard output; what the file itself prints goes to standard error. Nothing that it has registered for the end of the process runs.
    def read_puma(path)
      out = $stdout.dup
      $stdout.reopen($stderr)
      WorkerProcess.settle_environment(rails: true)
      out.write(PumaConfig.read(path).report)
      out.flush
      exit!(0)
    end

    # Its remarks were made by `keepwarm run` already.
    def register_hooks(path)
      rails = ENV.key?("RAILS_ENV")
      WorkerProcess.settle_environment(rails: true)
      PumaConfig.read(path).register_hooks
      ENV.delete("RAILS_ENV") unless rails
    end

    # `first`: this process stands for Puma's first one, too.
    def serve(worker, socket, threads, first:)
      owner = $$
      worker.serve(socket, threads) { Hooks.booted if first }
    ensure
      if $$ == owner # what a request has forked comes here too
        Hooks.before_shutdown
        Hooks.stopped if first
      end
    end

    # Takes an option and its value out of the arguments.
    def option(arguments, name)
      at = arguments.index(name)
      at && arguments.slice!(at, 2)[1]
    end

    def options(arguments)
      rest = arguments.dup
      threads = 1
      if (at = rest.index("--threads"))
        _, number = rest.slice!(at, 2)
        threads = number.to_s.match?(/\A\d{1,5}\z/) ? number.to_i : 0
        abort "keepwarm: --threads must be a number from 1 to #{MOST_THREADS}" unless threads.between?(1, MOST_THREADS)
      end
      abort USAGE if rest.size != 1 || rest.first.start_with?("--")

      [rest.first, threads]
    end
    private_class_method :read_puma, :register_hooks, :serve, :option, :options
  end
end

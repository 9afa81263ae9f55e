# frozen_string_literal: true

require "keepwarm/entry"
require "keepwarm/environment"
require "keepwarm/leaks"
require "keepwarm/serial_worker"
require "keepwarm/signals"
require "keepwarm/stats"
require "keepwarm/threaded_worker"
require "keepwarm/version"
require "keepwarm/worker_process"

module Keepwarm
  # A worker in two steps: `Worker.boot` loads the application, `serve` handles its requests on a descriptor.
  class Worker
    # Loads the application. Gives nil when it cannot be had; the reason is in the log.
    def self.boot(entry)
      leaks = Leaks.new
      leaks.watch
      new(Entry.load(entry), leaks)
    rescue EntryError => error
      Log.write("keepwarm: #{error.message}")
      nil
    rescue Exception => error # rubocop:disable Lint/RescueException -- an application that exits while it loads has failed too
      Log.exception(error)
      Log.write("keepwarm: #{entry} called exit(#{error.status}) while loading") if error.is_a?(SystemExit)
      nil
    end

    def initialize(app, leaks)
      @app = app
      @leaks = leaks
      @rack = Entry.rack_version
    end

    # Serves requests until Keepwarm sends no more; returns the exit status. Yields when it has reported that it is ready.
    def serve(socket, threads)
      connection = threads == 1 ? Serial.new(socket) : Threaded.new(socket, threads)
      connection.application = @app
      WorkerProcess.keep_from_children(connection)
      environment = environment(connection.read_welcome, threads)
      worker = worker(connection, environment, threads)
      Stats.begin(worker.method(:stats))
      Signals.report_to(connection)
      WorkerProcess.on_terminate { connection.ask_to_drain }
      @leaks.settle
      WorkerProcess.settle_memory
      connection.say_hello(threads, identity)
      yield if block_given?
      serve_to_the_end(worker, connection)
    rescue Lost
      0
    rescue Fault => fault
      connection.fail(fault)
      1
    end

    private

    def serve_to_the_end(worker, connection)
      worker.serve_forever
    ensure
      Signals.report_to(nil)
      connection.wait_for_hijacked
    end

    def worker(connection, environment, threads)
      service = -> { Service.new(connection, @app, environment, @rack, threads == 1) }
      return SerialWorker.new(connection, service.call, @leaks) if threads == 1

      ThreadedWorker.new(connection, threads, @leaks, &service)
    end

    def environment(about, threads)
      Environment.new(
        rack: @rack,
        software: about.fetch("software", "keepwarm/#{VERSION}"),
        multithread: threads > 1,
        multiprocess: about.fetch("workers", "1") != "1"
      )
    end

    # What a worker says about itself and what it can do, in HELLO (spec/wire.md §3).
    def identity
      {
        "adapter" => "ruby/#{VERSION}", "kind" => "rack", "language" => "#{RUBY_ENGINE} #{RUBY_VERSION}",
        "blocking" => "1", "cgi_names" => "1", "hijack" => "1", "user" => "1", "profile" => "1"
      }.merge(measurable? ? { "leaks" => "1" } : {})
    end

    # Whether this Ruby tells what it holds.
    def measurable?
      RUBY_ENGINE == "ruby" && !$LOAD_PATH.resolve_feature_path("objspace").nil?
    end
  end
end

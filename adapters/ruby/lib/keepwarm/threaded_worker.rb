# frozen_string_literal: true

require "keepwarm/hooks"
require "keepwarm/service"
require "keepwarm/threaded"

module Keepwarm
  # A worker that serves several requests at once: a thread that reads, and one for each request.
  class ThreadedWorker
    # Yields for the `Service` of each thread.
    def initialize(connection, threads, leaks, &service)
      @connection = connection
      @threads = threads
      @leaks = leaks
      @running = 0 # requests that a thread is at
      @lock = Mutex.new
      @new_service = service
      @requests = Queue.new
      @ending = nil # what an application's `exit` raised
      @stopping = false
      @working = Array.new(threads) # by thread: the request that it works on, and itself
    end

    # Serves requests until Keepwarm sends DRAIN or closes the connection; returns the exit status, or raises the `SystemExit` of the application.
    def serve_forever
      @connection.profile.watch(@connection) { @working.compact }
      @threads.times { |number| start(number) }
      named(Thread.new { read_forever }, "reader")
      @connection.wait_for_the_end
      raise @ending if @ending

      @connection.faulty ? 1 : 0
    ensure
      @stopping = true
    end

    # Requests that wait here, and that a thread is at; threads; requests so far.
    def stats
      [@requests.size, @running, @threads, @connection.requests]
    end

    private

    def read_forever
      @connection.read_forever do |flags, stream, payload|
        _, strings, body = Wire.decode_request(payload, flags)
        @requests << [flags, stream, strings, body]
      end
    end

    def start(number)
      named(Thread.new { serve_requests(number) }, "request #{number}")
    end

    def serve_requests(number)
      Hooks.thread_start
      service = @new_service.call
      until @connection.forked?
        id = serve_next(service, number)
        @connection.rested(id) if @connection.growth
      end
    ensure
      Hooks.thread_exit unless @connection.forked?
      @connection.rested(@connection.last_stream) if @connection.growth
      # The application killed its thread: another replaces it.
      start(number) unless @stopping || @connection.forked?
    end

    # Gives the request's stream. Nothing else of it is left on the stack.
    def serve_next(service, number)
      flags, stream, strings, body = @requests.pop
      id = stream.id
      @working[number] = [id, Thread.current]
      if @connection.growth
        Growth.below { serve(service, flags, stream, strings, body) }
        service.forget
      else
        serve(service, flags, stream, strings, body)
      end
      @working[number] = nil
      id
    end

    def serve(service, flags, stream, strings, body)
      @lock.synchronize { @running += 1 }
      ending = service.serve(flags, stream, strings, body)
      return if ending.nil?

      # The others finish; what waits at Keepwarm goes to other workers.
      @ending ||= ending
      @connection.ask_to_drain
    ensure
      rest
      @connection.end_stream(stream)
      @connection.send_samples if @connection.profile.pending
    end

    # Resets what requests changed in the process when no request is running that might use it.
    def rest
      @lock.synchronize do
        @running -= 1
        @leaks.undo if @running.zero? && @leaks.noted?
      end
    end

    def named(thread, name)
      thread.name = "keepwarm #{name}"
      thread.report_on_exception = true
      thread
    end
  end
end

# frozen_string_literal: true

require "stringio"
require "keepwarm/environment"
require "keepwarm/response"
require "keepwarm/hijack"
require "keepwarm/input"
require "keepwarm/log"
require "keepwarm/rewindable_input"
require "keepwarm/wire"

module Keepwarm
  # Serves an application's requests, one after the other: the environment, the call, the response, and what comes after it.
  #
  # A worker has one of these for each request that it serves at once.
  class Service
    NO_INPUT = Environment::NO_INPUT
    QUICK = 0.001 # seconds: a `close` that takes no longer keeps nobody waiting
    TRUSTED = 16 # after this number of quick ones in a row, the next is assumed to be quick
    private_constant :NO_INPUT, :QUICK, :TRUSTED

    # `rack`: the version of the application's Rack. `alone`: the process serves one request at a time.
    def initialize(connection, app, environment, rack, alone)
      @alone = alone
      @busy = false
      @quick_closes = 0 # in a row
      @connection = connection
      @app = app
      @environment = environment
      @rack = rack
      @response = Response.new(connection, rack)
      # Where signal handlers run, in a worker that serves one request at a time: `Connection#admitted`, without its block.
      @guarded = alone && Thread.current.equal?(Thread.main)
    end

    # A request. Gives the exception that ends the process after it, or nil.
    def serve(flags, stream, strings, body)
      response = @response
      response.begin(stream, strings[0] == "HEAD")
      env = @environment.for(strings, flags)
      input = input(env, flags, stream, body)
      env["rack.hijack"] = Hijack.new(response, stream.id, env)
      env["rack.early_hints"] = hints(response, stream) unless flags & Wire::EARLY_HINTS == 0
      finished = env["rack.response_finished"] = []
      after = env["rack.after_reply"] = []
      run(env, input, finished, after)
    ensure
      # Only a thread that is killed comes here with an open response.
      response.abort(Wire::APP_ERROR, "the application ended its thread") unless response.over
      @response = Response.new(@connection, @rack) if response.detached
      free if @busy
    end

    # Holds nothing of the last request: what is alive now is the application's.
    def forget
      @response.forget
    end

    private

    # There is work after the response: until it is done another worker is better for the next request (spec/wire.md §8).
    def stay_busy
      @busy = true
      @connection.send(Wire.frame(Wire::BUSY, 0, 0))
    end

    def free
      @busy = false
      @connection.send(Wire.frame(Wire::BUSY, Wire::END_BODY, 0))
    end

    def run(env, input, finished, after)
      error = body = status = headers = nil
      begin
        if @guarded
          begin
            @connection.admitted = true
            raise @connection.take_interruption if @connection.interruption

            status, headers, body = @app.call(env)
            status, headers, body = again(env, body) if status == 100
          ensure
            @connection.admitted = false
          end
        else
          status, headers, body = @app.call(env)
          status, headers, body = again(env, body) if status == 100
        end
        deliver(status, headers, body, input, finished.empty? && after.empty?)
      rescue Exception => error # rubocop:disable Lint/RescueException -- whatever the application raises ends here
        ending = failed(error)
      end
      close(body) if body.respond_to?(:close)
      input.close unless input.equal?(NO_INPUT)
      finished.reverse_each { |action| finish { action.call(env, status, headers, error) } } unless finished.empty?
      after.each { |action| finish { action.call } } unless after.empty?
      ending
    end

    # `bare`: nothing but the body's `close` follows.
    def deliver(status, headers, body, input, bare)
      return if @response.left

      stay_busy if @alone && (!bare || slow_to_close?(body))
      @response.deliver(checked(status), headers, body, input)
    end

    # The body of the request, as Rack wants to read it.
    def input(env, flags, stream, body)
      if flags & Wire::END_BODY == 0
        stream_input(env, flags, stream, body)
      else
        return NO_INPUT if body.empty?

        # It was chunked: RFC 3875 §4.1.2 wants the length all the same.
        env["CONTENT_LENGTH"] ||= body.bytesize.to_s.b
        env["rack.input"] = StringIO.new(body)
      end
    end

    def stream_input(env, flags, stream, body)
      input = Input.new(@connection, stream, body, flags & Wire::EXPECT != 0)
      env["keepwarm.send_continue"] = -> { input.send_continue }
      env["rack.input"] = @rack[0] < 3 ? RewindableInput.new(input) : input
    end

    # The application returned 100, the convention of Unicorn: let the body come, and call it again.
    def again(env, body)
      body.close if body.respond_to?(:close)
      env["keepwarm.send_continue"].call
      env.delete("HTTP_EXPECT")
      response = @app.call(env)
      return response unless response.is_a?(Array) && response[0] == 100

      raise ArgumentError, "the application returned 100 a second time, after it had requested the body"
    end

    # The status, as a number that can be sent.
    def checked(status)
      return status if status.instance_of?(Integer) && status >= 200 && status <= 999 # nearly always

      number = status.is_a?(Integer) ? status : status.to_s[/\A\d{3}\z/].to_i
      return number if number.between?(200, 999)
      raise ArgumentError, "the application returned #{number}, which is not the status of a final response" if number.between?(100, 199)

      raise ArgumentError, "the application returned #{status.inspect} instead of a status, or did not return [status, headers, body]"
    end

    # The application, or its body, raised. Gives the exception when it is to end this process.
    def failed(error)
      raise error if @connection.forked?

      if error.is_a?(ClientDisconnected) && (@response.stream.gone || @response.left)
        @response.abort(Wire::CANCELLED, "")
        return nil
      end
      Log.exception(error)
      @response.abort(Wire::APP_ERROR, "#{error.class} in the application")
      case error
      when SystemExit, SignalException then error
      when NoMemoryError
        @connection.ask_to_drain # what is left of this process is not to be trusted with more
        nil
      end
    end

    # Nearly every middleware gives a body with a `close`, which nearly always has little to do. After a response it may do
    # anything: BUSY is sent unless the last TRUSTED ones were quick.
    def slow_to_close?(body)
      @quick_closes < TRUSTED && body.respond_to?(:close)
    end

    # Whatever happened, once (Rack).
    def close(body)
      begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      @connection.admitted { body.close }
    rescue StandardError, ScriptError => error
      Log.exception(error)
    ensure
      if Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun > QUICK
        @quick_closes = 0
      elsif @quick_closes < TRUSTED
        @quick_closes += 1
      end
    end

    # What one of them raises does not stop the next.
    def finish(&action)
      @connection.admitted(&action)
    rescue StandardError, ScriptError => failure
      Log.exception(failure)
    end

    # `env["rack.early_hints"].call(headers)`: sends `103 Early Hints` as long as the response has not begun.
    def hints(response, stream)
      id = stream.id
      lambda do |headers|
        next if stream.id != id || response.begun || response.over

        fields = Fields.new(lines: true)
        fields.take(headers, 103)
        @connection.send(Wire.inform(id, 103, fields.count, fields.text))
        nil
      end
    end
  end
end

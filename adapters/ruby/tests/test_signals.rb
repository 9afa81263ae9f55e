# frozen_string_literal: true

require "driver"
require "keepwarm/threaded"

# Signals that an application has set a handler for, or none: never half a frame, and a worker is lost only to what is to end it.
class SignalsTest < Minitest::Test
  include Driver

  SIZE = 2_000_000
  APP = <<~'RUBY'
    SIZE = 2_000_000
    class Catches
      def each
        trap("HUP") { throw :out }
        catch(:out) { yield "x" * SIZE }
      end
    end
    trap("USR1") { raise "interrupted" }
    trap("USR2") { exit 7 }
    CODE = trap("WINCH", "$stderr.puts 'by a string'")
    FIRST = proc { warn "first" }
    lambda do |env|
      next [200, {}, Catches.new] if env["PATH_INFO"] == "/caught"
      next [200, {}, Enumerator.new { |out| 2.times { out << "x" * SIZE } }] if env["PATH_INFO"] == "/parts"

      body =
        case env["PATH_INFO"]
        when "/after" then "after"
        when "/large" then "x" * SIZE
        when "/own" then begin
          Process.kill("USR1", $$)
          sleep
        rescue RuntimeError => error
          "rescued #{error.message}"
        end
        when "/sets" then [Signal.trap("ALRM", FIRST), trap("ALRM") {}.equal?(FIRST), Kernel.trap("ALRM", "DEFAULT").class, trap("ALRM", "DEFAULT"), CODE].inspect
        end
      [200, { "content-length" => body.bytesize.to_s }, [body]]
    end
  RUBY

  def with(*options, **more, &block)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), APP)
      Worker.with("app.rb", *options, directory: folder, **more, &block)
    end
  end

  def while_it_writes(path = "/large", options: [])
    with(*options, stream_credit: 4_000_000, connection_credit: 4_000_000) do |worker|
      stream = worker.request(path)
      worker.wait_until_full
      yield worker, stream
    end
  end

  # It comes between two frames.
  def test_a_handler_that_raises_while_a_frame_is_written
    while_it_writes do |worker, stream|
      worker.signal("USR1")
      response = worker.response(stream)
      assert_equal [3, "RuntimeError in the application"], response.reset
      assert_match(/interrupted \(RuntimeError\)/, worker.log)
      assert_equal ["after", 0], [worker.get("/after").body, worker.drain]
    end
  end

  # The thread that writes is another than the one that handlers run in.
  def test_a_handler_that_raises_while_a_thread_writes
    while_it_writes(options: %w[--threads 2]) do |worker, stream|
      worker.signal("USR1")
      Driver.eventually { worker.log.include?("interrupted (RuntimeError)") }
      response = worker.response(stream)
      assert_equal [nil, SIZE], [response.reset, response.body.bytesize]
      assert_equal ["after", 0], [worker.get("/after").body, worker.drain]
    end
  end

  def test_a_handler_that_exits_while_a_frame_is_written
    while_it_writes do |worker, stream|
      worker.signal("USR2")
      assert_equal 3, worker.response(stream).reset[0]
      assert_equal 7, worker.drain
    end
  end

  # The application's `each` is what waits.
  def test_a_handler_that_raises_while_a_part_is_written
    while_it_writes("/parts") do |worker, stream|
      worker.signal("USR1")
      response = worker.response(stream)
      assert_equal [3, "RuntimeError in the application"], response.reset
      assert_equal ["after", 0], [worker.get("/after").body, worker.drain]
    end
  end

  def test_a_signal_without_a_handler_while_a_frame_is_written
    while_it_writes do |worker, stream|
      worker.signal("ALRM")
      assert_equal [3, "SignalException in the application"], worker.response(stream).reset
      worker.send(Driver.pack(:DRAIN))
      assert_nil worker.wait # by the signal
    end
  end

  # Nothing holds this back: half a frame is the end of the wire.
  def test_a_handler_that_throws_while_a_frame_is_written
    while_it_writes("/caught") do |worker, stream|
      worker.signal("HUP")
      assert_raises(RuntimeError, Errno::EPIPE) { worker.response(stream) } # the second: the driver's next credit meets a closed socket
      assert_equal 0, worker.wait
    end
  end

  # There is nobody to rescue it.
  def test_a_handler_that_raises_while_no_request_is_in_work
    [[], %w[--threads 2]].each do |options|
      with(*options) do |worker|
        assert_equal "after", worker.get("/after").body
        worker.wait_until_asleep
        worker.signal("USR1")
        Driver.eventually { worker.log.include?("interrupted (RuntimeError)") }
        assert_equal ["after", 0], [worker.get("/after").body, worker.drain]
      end
    end
  end

  def test_signals_at_any_moment_lose_no_request
    with do |worker|
      200.times do
        sent = Array.new(3) { worker.request("/after", send: false) }
        worker.send(sent.map(&:last).join)
        worker.signal("USR1")
        sent.each do |stream, _|
          response = worker.response(stream)
          assert response.reset || response.body == "after", worker.log
        end
      end
      worker.wait_until_asleep
      assert_equal ["after", 0], [worker.get("/after").body, worker.drain]
    end
  end

  def test_a_handler_that_exits_while_no_request_is_in_work
    with do |worker|
      assert_equal "after", worker.get("/after").body
      worker.wait_until_asleep
      worker.signal("USR2")
      assert_equal 7, worker.wait
    end
  end

  def test_an_application_rescues_what_its_handler_raises
    with do |worker|
      assert_equal "rescued interrupted", worker.get("/own").body
      assert_equal ["", 0], [worker.log, worker.drain]
    end
  end

  def test_trap_gives_the_handler_that_was_set_before
    with do |worker|
      assert_equal '["DEFAULT", true, Proc, "DEFAULT", "SYSTEM_DEFAULT"]', worker.get("/sets").body
      worker.signal("WINCH")
      Driver.eventually { worker.log.include?("by a string") }
    end
  end

  # A write fails while another thread, which has the lock of what threads share, waits for its turn to write.
  def test_a_thread_whose_write_fails_waits_for_no_other
    process = fork { exit!(lost_by_both? ? 0 : 1) } # threads that wait for each other could not be ended otherwise
    assert_equal 0, Process.wait2(process).last.exitstatus
  end

  def lost_by_both?
    socket = Object.new
    writes = Queue.new
    waiting = nil
    socket.define_singleton_method(:send) do |data, _flags|
      writes << data
      Driver.eventually { waiting&.stop? } if data == "a frame"
      raise Errno::EPIPE
    end
    connection = Keepwarm::Threaded.new(socket, 2)
    writer = Thread.new { connection.send("a frame") }
    writes.pop
    waiting = Thread.new { connection.synchronize { connection.send("another") } }
    [writer, waiting].all? { |thread| thread.join(PATIENCE / 3) } && connection.lost
  end
end

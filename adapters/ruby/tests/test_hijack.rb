# frozen_string_literal: true

require "driver"
require "test_rack"

# Rack's full hijack: the application responds by itself, on a socket of its own.
class HijackTest < SharedWorker
  GET = "GET /take-over HTTP/1.1\r\nHost: shop.example\r\n\r\n"

  # As Keepwarm does: the request again, in HTTP/1.1.
  def take_over(worker = self.worker, path = "/take-over", **more)
    stream = worker.request(path, **more)
    worker.take(stream) { |response| response.names.include?(:HIJACK) }
    io = worker.passed.shift
    io.write(GET)
    io
  end

  def head(io)
    io.gets("\r\n\r\n")
  end

  def test_hello_announces_it
    assert_includes worker.hello.payload, "hijack\x001"
  end

  def test_the_application_has_a_socket_and_the_worker_is_free
    one = take_over
    assert_equal "HTTP/1.1 101 Switching Protocols\r\n\r\n", head(one)
    two = take_over(flags: 0x11)
    head(two)
    assert_equal "hello", get.body
    one.puts("one")
    two.puts("two")
    assert_equal "[nil, nil] true heard one\n", one.gets
    assert_equal "[\"websocket\", \"Upgrade\"] true heard two\n", two.gets
    [one, two].each(&:close_write)
    assert_equal ["", ""], [one.read, two.read]
    assert_closed "taken", "taken"
  end

  def test_it_is_too_late_once_the_response_has_begun
    assert_equal "begun IOError: too late for rack.hijack: the response has begun", get("/take-over-late").body
    closed
  end

  def test_no_other_request_can_be_taken_over
    get("/take-over-of-another")
    assert_equal "IOError", get("/take-over-of-another").body
  end

  def test_lint_finds_nothing
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), <<~'RUBY')
        use Rack::Lint
        run(lambda do |env|
          next [200, { "content-type" => "text/plain" }, ["hello"]] unless env["PATH_INFO"] == "/take-over"

          env["rack.hijack?"] or raise "no hijack"
          io = env["rack.hijack"].call
          env["rack.hijack_io"].write("") # lint's own
          io.write("HTTP/1.1 200 OK\r\n\r\n")
          io.write_nonblock("by itself")
          io.flush
          io.close_write
          io.close
          [200, { "content-type" => "text/plain" }, []]
        end)
      RUBY
      [[], %w[--threads 2]].each do |options|
        Driver::Worker.with("config.ru", *options, directory: folder) do |worker|
          io = take_over(worker)
          assert io.wait_readable(Driver::PATIENCE), worker.log
          assert_equal "HTTP/1.1 200 OK\r\n\r\nby itself", io.read
          assert_equal "hello", worker.get("/").body
          assert_equal ["", 0], [worker.log.lines.grep_v(/warn/).join, worker.drain]
        end
      end
    end
  end

  # The client has gone while the application was thinking.
  def test_nobody_waits_for_it
    worker.request("/take-over")
    worker.take(worker.stream) { |response| response.names.include?(:HIJACK) }
    worker.passed.shift.close
    log = log_of { assert_equal "hello", get.body }
    refute_includes log, "ClientDisconnected"
  end

  def test_what_is_raised_after_it_is_logged_and_sends_nothing
    stream = worker.request("/take-over-and-raise")
    worker.take(stream) { |response| response.names.include?(:HIJACK) }
    worker.passed.shift.write(GET)
    # With threads another one serves what follows.
    Driver.eventually { worker.log.include?("behind the hijack (ArgumentError)") }
    assert_equal "hello", get.body
  end

  # The process lives as long as a connection that its application has taken over.
  def test_a_drain_waits_for_it
    Driver::Worker.with("app.rb", *self.class.options) do |worker|
      io = take_over(worker)
      head(io)
      worker.send(Driver.pack(:DRAIN))
      io.puts("still here")
      assert_match(/heard still here/, io.gets)
      refute Process.wait(worker.pid, Process::WNOHANG)
      io.close
      _, status = Process.wait2(worker.pid)
      assert_equal 0, status.exitstatus
    end
  end

  # Its application never closes it: that nobody is at the other end is enough.
  def test_a_drain_does_not_wait_for_an_application_that_forgets_it
    Driver::Worker.with("app.rb", *self.class.options) do |worker|
      io = take_over(worker, query: "forget")
      head(io)
      worker.send(Driver.pack(:DRAIN))
      io.close
      _, status = Process.wait2(worker.pid)
      assert_equal 0, status.exitstatus
    end
  end
end

class ThreadedHijackTest < HijackTest
  def self.options
    ["--threads", "3"]
  end
end

# frozen_string_literal: true

require "driver"

# A worker notes where its requests are at each SIGURG, and sends that in SAMPLES (spec/wire.md §10).
class ProfileTest < Minitest::Test
  include Driver

  HERTZ = 100
  TIME = 0.3 # of profile_app

  # What a worker has sent: by request, seconds of each stack.
  class Samples
    attr_reader :seconds, :dropped

    def initialize(frames)
      @seconds = Hash.new { |hash, request| hash[request] = Hash.new(0.0) }
      @dropped = 0
      frames.each { |frame| add(frame) if frame.name == :SAMPLES }
    end

    def add(frame)
      request, dropped = frame.payload.unpack("NN")
      @dropped += dropped
      strings, rest = Driver.unblock(frame.payload.byteslice(8..))
      raise "bytes after a string block" unless rest.empty?

      strings.each_slice(2) { |stack, time| @seconds[request][stack.force_encoding("UTF-8")] += Integer(time) / 1e6 }
    end

    # Seconds of the stacks of a request in which these are, in this order.
    def of(request, *names)
      @seconds[request].sum { |stack, seconds| names?(stack.split(";"), names) ? seconds : 0 }
    end

    def names?(parts, names)
      names.all? do |name|
        at = parts.index { |part| part == name || part.match?(/(\A|[#.])#{Regexp.escape(name)} \(/) }
        parts = parts.drop(at + 1) if at
        at
      end
    end
  end

  def with(*options, &block)
    Driver::Worker.with("profile_app.rb", *options) do |worker|
      worker.get("/")
      block.call(worker)
    end
  end

  # Signals at a rate, while the block runs.
  def ticking(worker)
    over = Queue.new
    pid = worker.pid
    Process.kill(:URG, pid)
    thread = Thread.new do
      while over.empty?
        sleep 1.0 / HERTZ
        Process.kill(:URG, pid)
      end
    end
    yield
  ensure
    over << true
    thread.join
  end

  # All samples, once there are no more.
  def collected(worker)
    worker.send(Driver.pack(:PING, 0, "12345678"))
    frames = []
    until frames.last&.name == :PONG
      frame = worker.read
      refute_nil frame, worker.log
      frames << frame
    end
    Samples.new(worker.held.slice!(0..) + frames)
  end

  def profiled(worker, path, **more)
    stream = nil
    ticking(worker) do
      stream = worker.request(path, **more)
      assert_equal 200, worker.response(stream).status, worker.log
      worker.get("/") # what comes after the response is over, too
    end
    [stream, collected(worker)]
  end

  # A busy machine takes longer for all, and gives signals late: what comes after the last one is not counted (a sixth of it was, once).
  def assert_about(seconds, wanted = TIME)
    assert_operator seconds, :>, wanted * 0.1
    assert_operator seconds, :<, wanted * 20
  end

  def test_what_computes_and_what_waits_are_told_apart
    with do |worker|
      stream, samples = profiled(worker, "/both")
      assert_about samples.of(stream, "app", "compute")
      assert_about samples.of(stream, "app", "wait", "(waiting)")
      assert_operator samples.of(stream, "compute", "(waiting)"), :<, samples.of(stream, "compute") / 2
      assert_equal 0, samples.dropped
    end
  end

  def test_a_frame_names_the_method_and_its_file
    with do |worker|
      stream, samples = profiled(worker, "/compute")
      stack = samples.seconds[stream].max_by(&:last).first
      assert_match(/\Aapp;[^;]*(block|<main>|lambda)[^;]* \(.*profile_app\.rb\);[^;]*compute \(.*profile_app\.rb\)/, stack)
    end
  end

  def test_phases
    with do |worker|
      stream, samples = profiled(worker, "/streamed")
      assert_about samples.of(stream, "response", "each", "compute")
      stream, samples = profiled(worker, "/closing")
      assert_about samples.of(stream, "after response", "close", "compute")
    end
  end

  def test_a_body_that_is_waited_for
    with do |worker|
      stream = nil
      ticking(worker) do
        stream = worker.request("/read", method: "POST", flags: 0, length: 4)
        sleep TIME
        worker.data(stream, "body", last: true)
        worker.response(stream)
      end
      assert_about collected(worker).of(stream, "request body", "(waiting)")
    end
  end

  def test_a_request_that_continues_is_sent_in_parts
    with do |worker|
      ticking(worker) do
        stream = worker.request("/both")
        assert_equal :SAMPLES, worker.read.name
        worker.response(stream)
      end
    end
  end

  def test_deep_stacks_keep_the_innermost
    with do |worker|
      stream, samples = profiled(worker, "/deep")
      parts = samples.seconds[stream].max_by(&:last).first.split(";")
      assert_operator parts.size, :<=, 203
      assert_equal %w[app ...], parts.first(2)
      assert_about samples.of(stream, "...", "deep", "compute")
    end
  end

  def test_threads_have_their_requests
    with("--threads", "3") do |worker|
      streams = nil
      ticking(worker) do
        streams = ["/compute", "/wait"].map { |path| worker.request(path) }
        streams.each { |stream| worker.response(stream) }
      end
      samples = collected(worker)
      assert_about samples.of(streams[0], "app", "compute")
      assert_about samples.of(streams[1], "app", "wait", "(waiting)")
      assert_equal 0, samples.of(streams[1], "compute")
      # The thread of the first request may not be through with it.
      assert_empty samples.seconds.keys - streams - [1], "idle threads have none"
    end
  end

  def test_nothing_is_left_when_it_is_over
    [[], ["--threads", "3"]].each do |options|
      with(*options) do |worker|
        files = Dir.children("/proc/#{worker.pid}/fd").size
        profiled(worker, "/compute")
        # Ruby keeps the system's thread of one that has ended for some seconds.
        Driver.eventually { threads(worker.pid).none? { |name| name.include?("profile") } }
        # A last signal may be handled after the end of the profile.
        Driver.eventually { collected(worker) && files == Dir.children("/proc/#{worker.pid}/fd").size }
        worker.get("/compute")
        assert_empty collected(worker).seconds
      end
    end
  end

  # The names of a process's threads; one may end while they are read.
  def threads(pid)
    Dir["/proc/#{pid}/task/*/comm"].filter_map do |file|
      File.read(file)
    rescue Errno::ENOENT, Errno::ESRCH
      nil
    end
  end

  def test_the_time_between_two_profiles_is_not_counted
    with do |worker|
      profiled(worker, "/compute")
      sleep 4 * TIME
      stream, samples = profiled(worker, "/")
      assert_operator samples.seconds[stream].values.sum, :<, 3 * TIME
    end
  end

  def test_a_worker_says_that_it_can
    with { |worker| assert_includes worker.hello.payload, "profile\0001" }
  end
end

# frozen_string_literal: true

require "driver"

# What a worker keeps from one request to the next, while Keepwarm measures it (spec/wire.md §11).
class GrowthTest < Minitest::Test
  include Driver

  SERIAL = [].freeze
  THREADED = %w[--threads 3].freeze
  NAME = /\A(memory|object;[^;]+|held;[^;]+|made;[^;]+:\d+)\z/.freeze

  # A GROWTH. It raises where the frame breaks a rule.
  class Growth
    attr_reader :request, :changes

    def initialize(frame)
      raise "#{frame.name} instead of GROWTH" unless frame.name == :GROWTH && frame.stream.zero? && frame.flags.zero?

      @request, = frame.payload.unpack("NN")
      strings, rest = Driver.unblock(frame.payload.byteslice(8..))
      raise "bytes after a string block" unless rest.empty?

      @changes = strings.each_slice(2).to_h { |name, change| [checked(name), Integer(change, 10)] }
      raise "a name twice, or too many: #{strings}" if strings.size != 2 * @changes.size || strings.size > 400
      raise "a change of 0 in #{@changes}" if @changes.value?(0)
    end

    def checked(name)
      name = name.dup.force_encoding("UTF-8")
      raise "the name #{name.inspect}" unless name.valid_encoding? && name.match?(NAME)

      name
    end
  end

  def with(*options, **more, &block)
    Driver::Worker.with("growth_app.rb", *options, **more, &block)
  end

  # Sends LEAKS; the response to it.
  def begin_growth(worker)
    worker.send(Driver.pack(:LEAKS))
    growth = next_growth(worker)
    assert_equal 0, growth.request
    assert_empty growth.changes
  end

  def end_growth(worker)
    worker.send(Driver.pack(:LEAKS, 0, "", END_BODY))
  end

  def next_growth(worker)
    loop do
      at = worker.held.index { |frame| frame.name == :GROWTH }
      return Growth.new(worker.held.delete_at(at)) if at

      frame = worker.read
      refute_nil frame, worker.log
      worker.file(frame)
    end
  end

  # A request, and what it has changed.
  def measured(worker, path = "/", status: 200, **more)
    stream = worker.request(path, **more)
    response = worker.response(stream)
    assert_equal status, response.status, worker.log if status
    refute worker.held.any? { |frame| frame.name == :GROWTH }, "a GROWTH before its response has ended"
    growth = next_growth(worker)
    assert_equal stream, growth.request
    growth.changes
  end

  # The changes of one request after some that fill caches.
  def kept(worker, path, warm: 3, **more)
    warm.times { measured(worker, path, **more) }
    measured(worker, path, **more)
  end

  def growing(*options, **more)
    with(*options, **more) do |worker|
      begin_growth(worker)
      yield worker
      assert_empty worker.log.gsub(/^.*as it should.*(\n\t.*)*\n/, "").lines.grep(/warn|error/i), worker.log
    end
  end

  # What a path keeps: changes that must be there.
  KEPT = {
    "/global" => { "held;$kept" => 1, "object;Shop::Item" => 1 },
    "/main" => { "held;main.@on_main" => 1 },
    "/constant" => { "held;Shop::CARTS" => 1, "object;Shop::Item" => 1 },
    "/nested" => { "held;Shop::BY_NAME[\"carts\"]" => 1, "object;String" => 1 },
    "/class_variable" => { "held;Shop::Page::@@seen" => 1, "object;String" => 1 },
    "/class_instance" => { "held;Shop::Page.@views" => 1, "object;String" => 1 },
    "/service" => { "held;Shop::SERVICE.@entries" => 1, "held;Shop::SERVICE.@keys" => 1, "object;String" => 2 },
    "/settings" => { "held;Shop::Settings.notes" => 1, "object;String" => 1 },
    "/queue" => { "held;Shop::QUEUE" => 1, "object;String" => 1 },
    "/closure" => { "held;closed_over (block at growth_app.rb:145)" => 1, "object;String" => 1 },
    "/thread" => { "held;Thread.current[:kept]" => 1 },
    "/thread_variable" => { "held;Thread.current.thread_variable_get(:kept)" => 1 },
    "/middleware" => { 'held;Middleware#@seen' => 1, "object;String" => 1 },
    "/list" => { "object;Shop::Link" => 1, "object;Shop::Item" => 1 },
    "/after" => { "held;Shop::CARTS" => 1, "object;Shop::Item" => 1 },
    "/finished" => { "held;Shop::CARTS" => 1, "object;Shop::Item" => 1 },
    "/private" => { "object;String" => 1 },
    "/class" => { "held;Shop::CARTS" => 1, "object;Class" => 1 }
  }.freeze

  def test_what_is_kept_has_its_name
    growing { |worker| assert_kept(worker, KEPT) }
  end

  def test_with_threads_too
    wanted = KEPT.reject { |path, _| path.start_with?("/thread") } # each thread has its own
    growing(*THREADED) { |worker| assert_kept(worker, wanted) }
  end

  def assert_kept(worker, paths)
    paths.each do |path, wanted|
      found = kept(worker, path)
      assert_equal wanted, found.slice(*wanted.keys), "#{path}: #{found}"
      assert_empty found.select { |name, change| name.start_with?("object;", "held;") && change.negative? }, path
    end
  end

  # What the measurement itself holds while it counts must not depend on what it has found.
  def test_a_request_that_keeps_nothing_after_one_that_does
    [SERIAL, THREADED].each do |options|
      growing(*options) do |worker|
        5.times { %w[/constant /].each { |path| measured(worker, path) } }
        3.times do
          found = measured(worker, "/constant")
          assert_equal({ "object;Shop::Item" => 1 }, found.select { |name, _| name.start_with?("object;") }, found.to_s)
          assert_empty measured(worker, "/")
        end
      end
    end
  end

  def test_a_line_has_made_what_is_kept
    growing do |worker|
      source = File.readlines(File.join(APPS, "growth_app.rb"))
      line = source.index { |text| text.include?('"/constant"') } + 1
      made = kept(worker, "/constant").select { |name, _| name.start_with?("made;") }
      assert_equal ["made;growth_app.rb:#{line}"], made.keys
      assert_equal kept(worker, "/constant")["memory"], made.values.first
    end
  end

  def test_memory_that_is_in_no_new_object
    growing do |worker|
      sum = 0
      20.times { sum += measured(worker, "/string").fetch("memory", 0) }
      assert_in_delta 20_000, sum, 15_000 # a string grows in steps
    end
  end

  # What is held of the last request, by its thread's stack or by the adapter, must not look as if it were kept.
  def test_an_application_that_keeps_nothing
    [SERIAL, THREADED].each do |options|
      growing(*options) do |worker|
        assert_nothing_kept(worker, ["/", "/big", "/garbage", "/cycle", "/header", "/#{"long" * 50}"])
      end
    end
  end

  def test_the_example_of_sinatra_keeps_nothing
    folder = File.expand_path("../../../examples/sinatra", __dir__)
    [SERIAL, THREADED].each do |options|
      Driver::Worker.with("config.ru", *options, directory: folder) do |worker|
        begin_growth(worker)
        assert_nothing_kept(worker, %w[/ /products /missing /whoami])
      end
    end
  end

  def assert_nothing_kept(worker, paths)
    40.times do |number|
      path = paths[number % paths.size]
      changes = measured(worker, path, status: nil, query: "q=#{"x" * number}")
      assert_empty changes, "#{path}, request #{number}" if number >= 20
    end
  end

  # What it did not come to is not taken for gone.
  def test_a_search_that_is_cut_loses_nothing
    growing do |worker|
      kept(worker, "/constant", warm: 0)
      %w[/chain /constant].each do |path|
        found = measured(worker, path)
        assert_empty found.select { |name, change| name.start_with?("held;") && change.negative? }, path
        assert_equal 1, found["held;Shop::CARTS"] if path == "/constant"
      end
    end
  end

  def test_what_goes_is_negative
    growing do |worker|
      4.times { measured(worker, "/constant") }
      found = measured(worker, "/shrink")
      assert_equal [-4, -4], found.values_at("held;Shop::CARTS", "object;Shop::Item"), found.to_s
    end
  end

  def test_a_request_that_fails
    [SERIAL, THREADED].each do |options|
      growing(*options) do |worker|
        found = kept(worker, "/raise", status: nil)
        assert_equal [1, 1], found.values_at("held;Shop::CARTS", "object;Shop::Item"), found.to_s
      end
    end
  end

  def test_an_application_that_keeps_its_environment
    growing do |worker|
      found = kept(worker, "/environment")
      assert_equal [1, 1], found.values_at("held;Shop::CARTS", "object;Hash"), found.to_s
    end
  end

  def test_a_request_whose_client_leaves
    [SERIAL, THREADED].each do |options|
      growing(*options) do |worker|
        4.times { measured(worker, "/constant") }
        stream = worker.request("/read", method: "POST", flags: 0, length: 4)
        worker.send(Driver.pack(:RESET, stream, [1].pack("n")))
        growth = next_growth(worker)
        assert_equal stream, growth.request
        assert_equal 0, growth.changes.fetch("held;Shop::CARTS", 0), "the read raised"
        assert_equal 1, measured(worker, "/constant")["held;Shop::CARTS"]
      end
    end
  end

  def test_a_hijacked_connection
    [SERIAL, THREADED].each do |options|
      growing(*options) do |worker|
        4.times { hijacked(worker) }
        assert_equal 1, hijacked(worker)["held;Shop::CARTS"]
      end
    end
  end

  # A request that takes its connection over, and what it has changed.
  def hijacked(worker)
    stream = worker.request("/hijack")
    worker.take(stream) { |response| response.names.include?(:HIJACK) }
    socket = worker.passed.pop
    socket.write("GET / HTTP/1.1\r\n\r\n")
    growth = next_growth(worker)
    assert_equal stream, growth.request
    growth.changes
  ensure
    socket&.close
  end

  def test_an_application_that_ends_its_process
    growing do |worker|
      stream = worker.request("/exit")
      assert_equal 3, worker.response(stream).reset.first
      assert_equal stream, next_growth(worker).request
      assert_equal 0, worker.drain
    end
  end

  def test_an_application_that_ends_its_thread
    growing(*THREADED) do |worker|
      assert_equal 1, kept(worker, "/end_thread", status: nil)["held;Shop::CARTS"]
    end
  end

  def test_a_worker_that_was_forked
    source = File.read(File.join(APPS, "growth_app.rb"))
    [SERIAL, THREADED].each do |options|
      Driver::Template.with(source, *options) do |template|
        template.worker do |worker|
          begin_growth(worker)
          found = kept(worker, "/constant")
          assert_equal [1, 1], found.values_at("held;Shop::CARTS", "object;Shop::Item"), found.to_s
          10.times { measured(worker) }
          10.times { assert_empty measured(worker) }
        end
      end
    end
  end

  def test_nothing_is_there_before_and_after
    [SERIAL, THREADED].each do |options|
      with(*options) do |worker|
        assert_equal "not loaded", worker.get("/traced").body
        2.times do
          begin_growth(worker)
          refute_empty measured(worker, "/constant")
          assert_match(/growth_app/, worker.get("/traced").body)
          next_growth(worker)
          end_growth(worker)
          Driver.eventually { worker.get("/threads").body.scan("growth").empty? }
          assert_equal "", worker.get("/traced").body
        end
        assert_empty worker.held, worker.log
      end
    end
  end

  # The request that is open is not measured; the next LEAKS begins anew.
  def test_its_end_during_a_request
    [SERIAL, THREADED].each do |options|
      with(*options) do |worker|
        begin_growth(worker)
        stream = worker.request("/read", method: "POST", flags: 0, length: 4)
        end_growth(worker)
        worker.data(stream, "body", last: true)
        assert_equal 200, worker.response(stream).status
        worker.get("/")
        assert_empty worker.held, worker.log
        begin_growth(worker)
        assert_equal 1, kept(worker, "/constant")["held;Shop::CARTS"]
      end
    end
  end

  # The response to LEAKS comes even if its end does before that.
  def test_its_end_at_once
    [SERIAL, THREADED].each do |options|
      with(*options) do |worker|
        3.times do
          worker.send(Driver.pack(:LEAKS) + Driver.pack(:LEAKS, 0, "", END_BODY))
          assert_equal 0, next_growth(worker).request
        end
        worker.get("/")
        assert_empty worker.held
      end
    end
  end

  def test_frames_that_are_faults
    [SERIAL, THREADED].each do |options|
      ends(options, "no LEAKS before it") { |worker| end_growth(worker) }
      ends(options, "LEAKS while the worker measures") do |worker|
        begin_growth(worker)
        worker.send(Driver.pack(:LEAKS))
      end
      ends(options, "LEAKS during a request") do |worker|
        worker.request("/read", method: "POST", flags: 0, length: 4)
        worker.send(Driver.pack(:LEAKS))
      end
      ends(options, "before the GROWTH of stream 1") do |worker|
        begin_growth(worker)
        worker.request("/read", method: "POST", flags: 0, length: 4)
        worker.request("/")
      end
    end
  end

  # What the block sends is a fault.
  def ends(options, reason)
    with(*options) do |worker|
      yield worker
      nil while worker.read
      assert_equal 1, worker.wait
      assert_includes worker.log, reason
    end
  end

  def test_a_worker_says_that_it_can
    with { |worker| assert_includes worker.hello.payload, "leaks\0001" }
  end
end

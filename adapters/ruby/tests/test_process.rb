# frozen_string_literal: true

require "driver"

# What holds however many requests a worker takes at once: `with` gives it to a block.
module AnyWorkerTests
  def test_the_end_of_the_wire_within_a_request
    with do |worker|
      stream = worker.request("/endless")
      worker.take(stream) { |response| response.frames.size > 1 }
      worker.mine.close
      assert_equal 0, worker.wait
      assert_equal "", worker.log
    end
  end

  def test_a_forked_child_never_writes_to_the_wire
    with do |worker|
      assert_equal "by the parent", worker.get("/fork").body
      assert_equal "hello", worker.get("/").body
      assert_equal "", worker.log
    end
  end

  def test_sigterm_asks_to_drain
    with do |worker|
      worker.get("/")
      worker.signal("TERM")
      assert_equal :DRAIN, worker.read.name
      assert_equal 200, worker.get("/").status
      assert_equal 0, worker.drain
    end
  end
end

# A worker's process, seen from the wire: how it begins, what it survives, how it ends.
class ProcessTest < Minitest::Test
  include AnyWorkerTests
  include Driver

  def with(entry = "app.rb", *options, **more, &block)
    Worker.with(entry, *options, **more, &block)
  end

  def test_hello
    with do |worker|
      version, streams, *credits = worker.hello.payload.unpack("nNNN")
      assert_equal [:HELLO, 1, 1], [worker.hello.name, version, streams]
      assert_operator credits.min, :>=, 65_536
      about = Driver.unblock(worker.hello.payload[14..])[0].each_slice(2).to_h
      assert_equal ["rack", "3", "#{RUBY_ENGINE} #{RUBY_VERSION}"], about.values_at("kind", "ahead", "language")
      assert about["adapter"].start_with?("ruby/")
      assert_equal %w[blocking cgi_names hijack user profile leaks], about.select { |_, value| value == "1" }.keys
    end
  end

  def test_it_is_woken_once_for_each_frame_and_not_by_the_reading_of_its_reply
    [[], %w[--threads 2]].each do |options|
      # The least of some: a busy machine wakes it for other reasons.
      with("app.rb", *options) { |worker| assert_operator Array.new(5) { worker.sleeps(20) }.min, :<, 30 }
    end
  end

  def test_what_runs_after_the_response_keeps_its_slot_taken
    with do |worker|
      assert_equal [200, 200], [worker.get("/").status, worker.get("/finishing").status]
      assert_equal 200, worker.get("/").status
      assert_equal [[:BUSY, 0], [:BUSY, 1]], worker.held.map { |frame| [frame.name, frame.flags] }
    end
    with do |worker|
      assert_equal %w[replied hello], [worker.get("/only-after-reply").body, worker.get("/").body]
      assert_equal [[:BUSY, 0], [:BUSY, 1]], worker.held.map { |frame| [frame.name, frame.flags] }
    end
    with("app.rb", "--threads", "2") do |worker|
      assert_equal [200, 200], [worker.get("/finishing").status, worker.get("/").status]
      assert_empty worker.held
    end
  end

  def test_what_a_close_does_keeps_its_place_taken_unless_it_was_quick_again_and_again
    with do |worker|
      busy = lambda do |query|
        worker.held.clear
        assert_equal [200, 200], [worker.get("/late", query: query).status, worker.get("/").status]
        worker.held.map { |frame| [frame.name, frame.flags] }
      end
      announced = [[:BUSY, 0], [:BUSY, 1]]
      assert_equal announced, busy.call("20")
      Driver.eventually do # on a busy machine a close that does nothing may take its time, and all begins anew
        asked = (1..).find { busy.call("0").empty? }
        assert_operator asked, :>, 16
        busy.call("20").empty? || !busy.call("20")
      end
      assert_equal announced, busy.call("0")
    end
    with("app.rb", "--threads", "2") do |worker|
      assert_equal [200, 200], [worker.get("/late", query: "5").status, worker.get("/").status]
      assert_empty worker.held
    end
  end

  def test_drain_ends_it_with_status_0
    with { |worker| assert_equal 0, worker.drain }
  end

  def test_drain_after_the_open_request
    with do |worker|
      stream = worker.request("/digest", method: "POST", length: 3, flags: 0)
      worker.data(stream, "abc", last: true)
      worker.send(Driver.pack(:DRAIN))
      assert_equal 3, worker.response(stream).json[0]
      assert_equal 0, worker.wait
    end
  end

  def test_the_end_of_the_wire_ends_it
    with do |worker|
      worker.mine.close
      assert_equal 0, worker.wait
    end
  end

  def test_at_exit_runs_at_the_end
    with do |worker|
      worker.get("/at-exit")
      assert_equal 0, worker.drain
      assert_equal "at_exit ran\n", worker.log
    end
  end

  def test_ping
    with do |worker|
      worker.send(Driver.pack(:PING, 0, "12345678"))
      assert_equal [:PONG, "12345678"], worker.read.then { |frame| [frame.name, frame.payload] }
    end
  end

  def test_frames_byte_by_byte_and_several_at_once
    with do |worker|
      _, one = worker.request("/", send: false)
      one.each_char { |byte| worker.send(byte) }
      assert_equal 200, worker.response(1).status
      _, two = worker.request("/", send: false)
      worker.send([Driver.pack(:PING, 0, "abcdefgh"), two, Driver.pack(:PING, 0, "hgfedcba"), Driver.pack(:DRAIN)].join)
      assert_equal 200, worker.response(2).status
      assert_equal 0, worker.wait
    end
  end

  def test_a_fault_ends_it_with_status_1
    [
      "\xff".b * 10, Driver.pack(:DATA, 0, "x"), Driver.pack(:PING, 0, "1"), Driver.pack(:HELLO), Driver.pack(:REQUEST, 0),
      Driver.pack(:CREDIT, 0, "\0" * 4), Driver.pack(:REQUEST, 1, "\0" * 14, END_BODY), Driver.pack(:DRAIN, 0, "x"), Driver.pack(:WELCOME),
      Driver.pack(:TEXT, 1, "x")
    ].each do |bad|
      with do |worker|
        worker.send(bad)
        assert_nil worker.read, bad.inspect
        assert_equal 1, worker.wait
        assert_includes worker.log, "fault on the wire"
      end
    end
  end

  def test_stream_ids_never_come_twice
    with do |worker|
      worker.get("/")
      worker.stream = 0
      worker.request("/")
      assert_nil worker.read
      assert_includes worker.log, "stream 1 after stream 1"
    end
  end

  def test_prints_are_log_lines
    with do |worker|
      assert_equal "printed to stdout\nprinted to stderr\nwritten to rack.errors\n", worker.log_of { worker.get("/prints") }
    end
  end

  # Each line but the last says that it goes on (spec/wire.md §1).
  def test_an_exception_is_one_record
    with do |worker|
      worker.get("/fail-deep")
      *lines, last = worker.raw_log.lines(chomp: true)
      assert_equal [true, "\x1F", true, false], [lines.size > 1, lines.map { |line| line[-1] }.uniq.join, last.size > 1, last.end_with?("\x1F")]
    end
  end

  def test_a_grandchild_does_not_get_the_descriptor
    with do |worker|
      links = Dir.children("/proc/#{worker.pid}/fd").map { |one| File.readlink("/proc/#{worker.pid}/fd/#{one}") }
      wire = links.find { |link| link.start_with?("socket:") }
      assert_equal "false false", worker.get("/grandchild", query: wire).body
    end
  end

  # It asks for a replacement, and goes on until it is there.
  def leaves(path, status, words)
    with do |worker|
      response = worker.get(path)
      assert_equal 3, response.reset[0]
      said = worker.held.map(&:name)
      said << worker.read.name until said.last == :DRAIN
      assert_equal [:DRAIN], said - [:BUSY]
      assert_equal "hello", worker.get("/").body
      assert_equal status, worker.drain
      assert_includes worker.log, words
      response
    end
  end

  def test_exit_ends_the_worker_after_a_500
    leaves("/exit", 7, "(SystemExit)")
  end

  def test_abort_too
    leaves("/abort", 1, "no more of this")
  end

  def test_what_was_made_before_exit_is_delivered
    assert_equal "what was made before", leaves("/exit-late", 7, "(SystemExit)").body
  end

  def test_exit_counts_even_when_keepwarm_has_gone
    with do |worker|
      assert_equal 3, worker.get("/exit").reset[0]
      worker.hang_up
      assert_equal 7, worker.wait
    end
  end

  def test_exit_without_ceremony_closes_the_wire
    with do |worker|
      worker.request("/die")
      assert_nil worker.read
      assert_equal 9, worker.wait
    end
  end

  # The main thread that is killed is an `exit` (Thread#kill).
  def test_a_thread_that_ends_itself_leaves_no_request_open
    with do |worker|
      assert_equal 3, worker.get("/kill-thread").reset[0]
      assert_equal 0, worker.drain
    end
  end

  def test_out_of_memory_asks_for_a_replacement
    with do |worker|
      assert_equal 3, worker.get("/memory").reset[0]
      assert_equal :DRAIN, worker.read.name
      assert_equal 200, worker.get("/").status # one that crossed
      assert_equal 0, worker.drain
    end
  end

  def test_sigint_is_not_for_the_worker
    with do |worker|
      worker.get("/")
      worker.signal("INT")
      assert_equal 200, worker.get("/").status
      assert_equal 0, worker.drain
    end
  end

  # A worker that is in the middle of a request, and the FIFO that lets it go on.
  def stuck(*options)
    Dir.mktmpdir do |folder|
      here, go = %w[here go].map { |name| File.join(folder, name).tap { |path| File.mkfifo(path) } }
      with("app.rb", *options, env: { "TEST_FIFO_OUT" => here, "TEST_FIFO_IN" => go }) do |worker|
        stream = worker.request("/wait")
        File.open(here, &:gets)
        yield worker, stream, -> { File.write(go, "go\n") }
      end
    end
  end

  def test_sigterm_within_a_request_asks_after_it
    stuck do |worker, stream, go_on|
      worker.signal("TERM")
      go_on.call
      assert_equal "went on", worker.response(stream).body
      assert_equal :DRAIN, (worker.held.first || worker.read).name
      assert_equal 0, worker.drain
    end
  end

  def test_a_stuck_worker_shows_its_stacks
    [[], ["--threads", "2"]].each do |options|
      stuck(*options) do |worker, stream, go_on|
        worker.signal("QUIT")
        Driver.eventually { worker.log.include?("wait_for_line") }
        assert_match(/app\.rb:\d+:in `wait_for_line'/, worker.log)
        go_on.call
        assert_equal "went on", worker.response(stream).body
      end
    end
  end

  def test_what_a_request_leaks_is_put_back
    with do |worker|
      before = worker.get("/place").body
      log = worker.log_of { 2.times { worker.get("/leak") } }
      assert_equal before, worker.get("/place").body
      ["directory", "umask", "time zone"].each { |what| assert_equal 1, log.scan("changed the #{what}").size, what }
    end
  end

  def test_it_is_not_development_unless_that_is_said
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "env.rb"), "->(env) { [200, {}, [ENV['RACK_ENV']]] }")
      with(File.join(folder, "env.rb")) { |worker| assert_equal "production", worker.get("/").body }
      with(File.join(folder, "env.rb"), env: { "RACK_ENV" => "test" }) { |worker| assert_equal "test", worker.get("/").body }
    end
  end
end

# Requests that wait behind the one in work (`ahead`, spec/wire.md §3-§4).
class AheadTest < Minitest::Test
  include Driver

  # Requests that arrive in one read; their streams.
  def together(worker, *paths)
    sent = paths.map { |path| worker.request(path, send: false) }
    worker.send(sent.map(&:last).join)
    sent.map(&:first)
  end

  def test_requests_of_one_read_are_served_in_order
    Worker.with("app.rb") do |worker|
      bodies = together(worker, "/", "/environ", "/parts", "/").map { |stream| worker.response(stream).body }
      assert_equal ["hello", "/environ", "firstsecond", "hello"], [bodies[0], JSON.parse(bodies[1])["PATH_INFO"], *bodies[2..]]
    end
  end

  def test_an_error_in_one_does_not_reach_the_next
    Worker.with("app.rb") do |worker|
      first, second, third = together(worker, "/fail", "/", "/failing-parts")
      assert worker.response(first).reset
      assert_equal "hello", worker.response(second).body
      assert worker.response(third).reset
      assert_equal "hello", worker.get("/").body
    end
  end

  def test_cut_anywhere_they_are_the_same
    Worker.with("app.rb") do |worker|
      sent = Array.new(3) { worker.request("/", send: false) }
      sent.map(&:last).join.each_char.each_slice(37) { |piece| worker.send(piece.join) }
      sent.each { |stream, _| assert_equal "hello", worker.response(stream).body }
    end
  end

  def test_one_that_waits_can_be_withdrawn
    Worker.with("app.rb") do |worker|
      body = worker.request("/digest", method: "POST", length: 3, flags: 0)
      waiting = worker.request("/")
      worker.reset(waiting)
      worker.data(body, "abc", last: true)
      assert_equal 3, worker.response(body).json[0]
      assert_equal 1, worker.response(waiting).reset[0]
    end
  end

  def test_a_process_that_ends_serves_what_waits
    Worker.with("app.rb") do |worker|
      first, *others = together(worker, "/exit", "/", "/")
      assert_equal 3, worker.response(first).reset[0]
      others.each { |stream| assert_equal "hello", worker.response(stream).body }
      assert_equal 7, worker.drain
    end
  end
end

# What cannot be served, and what the user is told.
class EntryTest < Minitest::Test
  include Driver

  def refused(source, name: "app.rb", env: {})
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, name), source) if source
      Worker.with(name, hello: false, directory: folder, env: env) do |worker|
        assert_nil worker.read
        assert_equal 1, worker.wait
        worker.log
      end
    end
  end

  def served(source, name)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, name), source)
      Worker.with(name, directory: folder) { |worker| worker.get("/").body }
    end
  end

  def test_what_is_no_application
    assert_includes refused(nil), 'file "app.rb" not found in'
    assert_includes refused("5"), "returned an object of Integer, and defines none of the constants App, Application"
    assert_includes refused("raise 'at boot'"), "app.rb:1:in `<main>': at boot (RuntimeError)"
    assert_includes refused("def x"), "syntax error"
    assert_includes refused("exit 3"), "called exit(3) while loading"
    assert_includes refused("require 'no_such_thing'"), "cannot load such file -- no_such_thing (LoadError)"
    assert_includes refused("run 5", name: "config.ru"), "returned an object of Integer"
    assert_includes refused("use Nothing", name: "config.ru"), "uninitialized constant Nothing"
  end

  def test_a_rackup_file_without_rack
    Dir.mktmpdir do |folder|
      gone = "raise LoadError.new('cannot load such file -- rack').tap { |error| error.instance_variable_set(:@path, 'rack') }"
      File.write(File.join(folder, "rack.rb"), gone)
      log = refused("run 5", name: "config.ru", env: { "RUBYLIB" => folder })
      assert_includes log, "config.ru needs the gem rack"
      assert_includes log, "bundle install"
    end
  end

  def test_ways_to_define_an_application
    assert_equal "returned", served("->(env) { [200, {}, ['returned']] }", "shop.rb")
    assert_equal "named", served("class MyShop; def self.call(env) = [200, {}, ['named']]; end; nil", "my_shop.rb")
    assert_equal "usual", served("App = ->(env) { [200, {}, ['usual']] }; nil", "shop.rb")
    assert_equal "rackup", served("run ->(env) { [200, {}, ['rackup']] }", "config.ru")
  end

  def test_sinatra_at_the_top_level
    source = "require 'sinatra'\nset :environment, :production\nget('/') { 'classic' }\n"
    assert_equal "classic", served(source, "shop.rb")
  end

  def test_an_application_with_a_gemfile_gets_the_gems_of_its_bundle
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "Gemfile"), "gem 'rack'\n")
      File.write(File.join(folder, "config.ru"), <<~'RUBY')
        begin
          require "sinatra/base"
        rescue LoadError
          sinatra = "none"
        end
        run ->(env) { [200, {}, ["rack #{Rack.release[0]}, sinatra #{sinatra.inspect}, bundler #{defined?(Bundler).inspect}"]] }
      RUBY
      Worker.with("config.ru", directory: folder) do |worker|
        assert_equal 'rack 2, sinatra "none", bundler "constant"', worker.get("/").body
      end
      File.write(File.join(folder, "Gemfile"), "gem 'no_such_gem_as_this'\n")
      Worker.with("config.ru", directory: folder, hello: false) do |worker|
        assert_operator worker.wait, :>, 0
        assert_includes worker.log, "no_such_gem_as_this"
      end
    end
  end

  def test_wrong_options
    Worker.with("app.rb", "--threads", "0", hello: false) { |worker| assert_equal [1, true], [worker.wait, worker.log.include?("--threads must be a number")] }
    Worker.with("--what", hello: false) { |worker| assert_equal [1, true], [worker.wait, worker.log.include?("usage: keepwarm-worker ENTRY")] }
  end

  def test_without_the_wire
    output = IO.popen({ "KEEPWARM_FD" => nil }, [RbConfig.ruby, PROGRAM, "app.rb"], err: %i[child out], chdir: APPS, &:read)
    assert_includes output, "start it with `keepwarm run`"
  end
end

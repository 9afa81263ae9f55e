# frozen_string_literal: true

require "open3"

require "driver"

# Puma's configuration: what `keepwarm run` learns of it, and its hooks in workers.
class PumaTest < Minitest::Test
  include Driver

  # What the adapter reports of a file: its settings, how many hooks it has, and remarks as `LINE: TEXT`.
  def report(text, env = {}, name: "puma.rb", more: {})
    Dir.mktmpdir do |folder|
      more.each { |file, content| File.write(File.join(folder, file), content) }
      file = File.join(folder, name)
      File.write(file, text)
      clean = %w[RACK_ENV RAILS_ENV APP_ENV PORT WEB_CONCURRENCY RAILS_MAX_THREADS].to_h { |variable| [variable, nil] }
      out, @printed, status = Open3.capture3({ **clean, **env }, RbConfig.ruby, "-w", PROGRAM, "--read-puma", file, chdir: folder)
      lines = out.lines.map { |line| line.chomp.split("\t") }
      assert_equal [["end"], 0], [lines.pop, status.exitstatus], @printed
      settings = lines.select { |kind, *| kind == "set" }.to_h { |_, key, value| [key, value] }
      remarks = lines.select { |kind, *| kind == "remark" }.map { |_, path, line, text| "#{"#{File.basename(path)} " unless path == file}#{line}: #{text}" }
      [settings, lines.find { |kind, *| kind == "hooks" }[1].to_i, remarks]
    end
  end

  GENERATED = <<~'RUBY'
    max_threads_count = ENV.fetch("RAILS_MAX_THREADS") { 5 }
    min_threads_count = ENV.fetch("RAILS_MIN_THREADS") { max_threads_count }
    threads min_threads_count, max_threads_count
    worker_timeout 3600 if ENV.fetch("RAILS_ENV", "development") == "development"
    port ENV.fetch("PORT") { 3000 }
    environment ENV.fetch("RAILS_ENV") { "development" }
    pidfile ENV.fetch("PIDFILE") { "tmp/pids/server.pid" }
    plugin :tmp_restart
  RUBY

  def test_the_file_that_rails_generates
    settings, hooks, remarks = report(GENERATED)
    # What is not said to be development is not.
    assert_equal [{ "threads" => "5", "environment" => "production" }, 0], [settings, hooks]
    assert_equal [
      '5: `port` is not used: write `--bind 0.0.0.0:3000`, or `bind = "0.0.0.0:3000"` under `[listen.NAME]`',
      "7: `pidfile` is not used: write `pid_file` under `[server]`",
      "8: `plugin :tmp_restart` is not used: `keepwarm reload` restarts the workers"
    ], remarks
    settings, = report(GENERATED, { "RAILS_ENV" => "development", "RAILS_MAX_THREADS" => "9" })
    assert_equal({ "threads" => "9", "environment" => "development", "worker_timeout" => "3600" }, settings)
  end

  def test_what_decides_how_many_workers_there_are_and_how_they_start
    settings, hooks, remarks = report(<<~'RUBY')
      puts "printed while it is read"
      workers ENV.fetch("WEB_CONCURRENCY") { "3" }
      threads 0, 16
      preload_app!
      directory "/tmp"
      worker_boot_timeout 90
      worker_shutdown_timeout 45
      quiet
      tag "shop"
      before_fork { raise "not now" }
      on_worker_boot { |index| raise index }
      get(:workers, 7) == "3" or raise "get"
      at_exit { puts "no end of its own" }
    RUBY
    assert_equal({ "workers" => "3", "threads" => "16", "preload" => "true", "directory" => "/tmp", "boot_timeout" => "90", "drain_timeout" => "45" }, settings)
    assert_equal [2, []], [hooks, remarks]
    assert_equal "printed while it is read\n", @printed
    assert_equal [{ "workers" => "auto", "threads" => "1", "preload" => "false" }, { "workers" => "1", "drain_timeout" => "0" }],
                 [report("workers :auto\nthreads 0\npreload_app! false")[0], report("workers 0\nforce_shutdown_after :immediately")[0]]
  end

  def test_what_is_unknown_or_wrong_is_named_with_its_line_and_passed_over
    settings, _, remarks = report(<<~'RUBY')
      frobnicate 3, with: "x" do
        never
      end
      workers "many"
      threads 1, nil
      bind "unix:///run/shop.sock?umask=0111"
      bind "ssl://0.0.0.0:9292?key=k"
      ssl_bind "127.0.0.1", "9292", { cert: "c", key: "k" }
      threads 2, 4
    RUBY
    assert_equal({ "threads" => "4" }, settings)
    assert_equal [1, 4, 5, 6, 7, 8], remarks.map(&:to_i)
    assert_equal "1: `frobnicate` is not used: unknown directive", remarks[0]
    assert_equal '4: `workers` is not used: "many" is not a number', remarks[1]
    assert_includes remarks[3], '`--bind unix:/run/shop.sock`'
  end

  def test_a_file_that_fails_counts_as_far_as_it_came
    { "raise 'no'" => "RuntimeError: no", "require 'no/such/gem'" => "LoadError: cannot load such file -- no/such/gem",
      "abort" => "it called exit", "Puma::Nothing" => "NameError: uninitialized constant Keepwarm::PumaDirectives::Puma" }.each do |line, error|
      settings, _, remarks = report("threads 3\n#{line}\nworkers 9")
      assert_equal [{ "threads" => "3" }, ["2: the rest of the file is not used: #{error}"]], [settings, remarks], line
    end
    settings, _, remarks = report("threads 3\nworkers (")
    assert_equal [{}, 1], [settings, remarks.size]
    assert_match(/\A[23]: the rest of the file is not used: SyntaxError: /, remarks[0])
  end

  def test_a_file_may_load_another
    more = { "more.rb" => "workers 4\nport 1\n", "loop.rb" => "load 'loop.rb'\nthreads 2" }
    settings, _, remarks = report("load 'more.rb'\nload 'loop.rb'\nload 'none.rb'\nthreads 3", more: more)
    assert_equal({ "workers" => "4", "threads" => "3" }, settings)
    assert_match(/\Amore.rb 2: `port` is not used/, remarks[0])
    assert_match(/\Anone.rb 0: the rest of the file is not used: Errno::ENOENT/, remarks[1])
  end

  HOOKS = <<~'RUBY'
    $said = []
    $me = $$
    here = -> { $me == $$ ? "first" : "worker" }
    before_fork { $said << "before_fork #{here.call}" }
    before_fork { $said << "before_fork again" }
    on_worker_boot(:key) { |index, data| $said << "on_worker_boot #{index} #{data.inspect} #{here.call}" }
    on_worker_shutdown { |index| warn "on_worker_shutdown #{index}" }
    on_thread_start { $said << "on_thread_start #{Thread.current.name.inspect}" }
    on_thread_exit { warn "on_thread_exit #{Thread.current.name}" }
    on_booted { $said << "on_booted #{here.call}" }
    on_stopped { warn "on_stopped #{here.call}" }
    $said << ENV.values_at("RACK_ENV", "RAILS_ENV").join(" ")
  RUBY
  APP = "$said << ENV['RAILS_ENV'].inspect\n->(_) { [200, {}, [$said.join(\"\\n\")]] }"

  def worker(*options, **more, &block)
    Dir.mktmpdir do |folder|
      { "app.rb" => APP, "puma.rb" => HOOKS }.each { |name, text| File.write(File.join(folder, name), text) }
      Worker.with("app.rb", "--puma", File.join(folder, "puma.rb"), *options, directory: folder, **more, &block)
    end
  end

  def test_its_hooks_run_in_a_worker_counted_as_puma_counts
    worker(env: { "KEEPWARM_WORKER" => "1" }) do |worker|
      assert_equal ["production production", "nil", "on_worker_boot 0 nil first", "on_booted first", "on_thread_start nil"], worker.get("/").body.lines(chomp: true)
      assert_equal 0, worker.drain
      assert_equal ["on_thread_exit ", "on_worker_shutdown 0", "on_stopped first"], worker.log.lines(chomp: true)
    end
    worker("--threads", "2", env: { "KEEPWARM_WORKER" => "2" }) do |worker|
      said = []
      Driver.eventually { (said = worker.get("/").body.lines(chomp: true)).grep(/on_thread_start/).size == 2 }
      assert_equal ["production production", "nil", "on_worker_boot 1 nil first"], said.first(3)
      assert_includes said, 'on_thread_start "keepwarm request 0"'
      refute_includes said.join, "on_booted"
      assert_equal 0, worker.drain
      assert_equal ["on_thread_exit keepwarm request 0", "on_thread_exit keepwarm request 1", "on_worker_shutdown 1"], worker.log.lines(chomp: true).sort
    end
  end

  def test_its_hooks_run_around_a_fork
    Template.with(APP, "--puma", "puma.rb", files: { "puma.rb" => HOOKS }) do |template|
      2.times do |index|
        template.worker do |worker|
          # As Puma does it: `before_fork` once, before the first fork, and in the order of the file.
          said = ["production production", "nil", "on_booted first", "before_fork first", "before_fork again"]
          assert_equal [*said, "on_worker_boot #{index} nil worker", "on_thread_start nil"], worker.get("/").body.lines(chomp: true)
          assert_equal 0, worker.drain
          assert_equal ["on_thread_exit ", "on_worker_shutdown #{index}"], worker.log.lines(chomp: true)
        end
      end
      assert_equal "", template.log
    end
  end

  def test_the_environment_is_that_of_rails_where_that_alone_is_said
    [[{}, "production"], [{ "RAILS_ENV" => "development" }, "development"], [{ "APP_ENV" => "test" }, "test"],
     [{ "RACK_ENV" => "staging", "RAILS_ENV" => "development" }, "staging"]].each do |env, wanted|
      Dir.mktmpdir do |folder|
        File.write(File.join(folder, "app.rb"), "->(_) { [200, {}, [ENV['RACK_ENV']]] }")
        Worker.with("app.rb", directory: folder, env: { "RAILS_ENV" => nil, **env }) { |worker| assert_equal wanted, worker.get("/").body, env.inspect }
      end
    end
  end
end

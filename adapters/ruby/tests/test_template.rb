# frozen_string_literal: true

require "driver"

# `preload`: threads that were started while the application was loaded, and the hooks.
class TemplateTest < Minitest::Test
  include Driver

  def test_an_application_without_threads_is_forked_without_a_word
    Template.with("LOADED_BY = $$\n->(_) { [200, {}, [(LOADED_BY == Process.ppid).to_s]] }") do |template|
      template.worker { |worker| assert_equal ["true", 0, ""], [worker.get("/").body, worker.drain, worker.log] }
      assert_equal ["ready", ""], [template.ready, template.log]
    end
  end

  def test_threads_of_the_application_are_warned_of_and_no_reason_to_refuse
    source = <<~'RUBY'
      LOCK = Mutex.new
      HELD = Queue.new
      Thread.new { LOCK.synchronize { HELD << true; sleep } }.name = "metrics-flusher"
      HELD.pop
      Thread.new { HELD << true; sleep }.name = "sleeper"
      HELD.pop
      Thread.new { sleep }.tap { |thread| thread.name = "unlisted" }.thread_variable_set(:fork_safe, true)
      ->(_) { [200, {}, [LOCK.synchronize { Thread.list.size.to_s }]] }
    RUBY
    Template.with(source) do |template|
      # The lock that one of them held is free in each worker.
      2.times { template.worker { |worker| assert_equal ["1", 0, ""], [worker.get("/").body, worker.drain, worker.log] } }
      assert_equal 1, template.log.lines.size
      assert_match(/started 2 threads while loading.*: metrics-flusher \(.*app\.rb:3:.*\), sleeper \(.*app\.rb:5:/, template.log)
      refute_includes template.log, "unlisted"
    end
  end

  def test_threads_that_are_marked_are_not_spoken_of
    source = "Thread.new { sleep }.thread_variable_set(:fork_safe, true)\n->(_) { [200, {}, ['ok']] }"
    Template.with(source) do |template|
      template.worker { |worker| assert_equal "ok", worker.get("/").body }
      assert_equal "", template.log
    end
  end

  HOOKS = <<~'RUBY'
    SAID = []
    ME = $$
    here = -> { ME == $$ ? "template" : "worker" }
    %i[before_fork on_worker_fork before_worker_fork after_worker_fork after_worker_boot].each do |name|
      Keepwarm.public_send(name) { |number| SAID << "#{name} #{number} #{here.call}" }
    end
    %i[after_fork on_worker_boot before_worker_boot].each { |name| Keepwarm.public_send(name) { |number| SAID << "#{name} #{number} #{here.call}" } }
    %i[before_worker_shutdown on_worker_shutdown].each { |name| Keepwarm.public_send(name) { |number| warn "#{name} #{number} #{here.call}" } }
    Keepwarm.before_worker_boot(&-> { SAID << "takes no number" })
    Keepwarm.before_worker_shutdown { raise "a hook fails" }
    ->(_) { [200, {}, [SAID.join("\n")]] }
  RUBY

  def test_hooks_have_the_names_of_puma_too
    Template.with(HOOKS) do |template|
      before = ->(number) { %w[before_worker_fork on_worker_fork before_fork].map { |name| "#{name} #{number} template" } }
      after = ->(number) { %w[after_worker_fork after_worker_boot].map { |name| "#{name} #{number} template" } }
      boot = ->(number) { [*%w[after_fork on_worker_boot before_worker_boot].map { |name| "#{name} #{number} worker" }, "takes no number"] }
      template.worker { |worker| assert_equal before.call(1) + boot.call(1), worker.get("/").body.lines(chomp: true) }
      template.worker do |worker|
        assert_equal before.call(1) + after.call(1) + before.call(2) + boot.call(2), worker.get("/").body.lines(chomp: true)
        assert_equal 0, worker.drain
        assert_match(/\Abefore_worker_shutdown 2 worker\non_worker_shutdown 2 worker\n.*a hook fails \(RuntimeError\)/, worker.log)
      end
    end
  end

  def test_the_end_of_a_process_that_a_request_forked_is_not_that_of_the_worker
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), <<~'RUBY')
        ME = $$
        Keepwarm.before_worker_shutdown { warn "worker #{$$ == ME}" }
        lambda do |env|
          child = fork
          exit 5 if child.nil? && env["PATH_INFO"] == "/exit"
          Process.wait(child) if child
          [200, {}, ["by the parent"]]
        end
      RUBY
      Worker.with("app.rb", directory: folder) do |worker|
        assert_equal ["by the parent"] * 2, [worker.get("/").body, worker.get("/exit").body]
        assert_equal 0, worker.drain
        assert_equal "worker true\n", worker.log
      end
    end
  end

  def test_hooks_of_a_worker_run_without_a_template
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), HOOKS)
      Worker.with("app.rb", directory: folder, env: { "KEEPWARM_WORKER" => "3" }) do |worker|
        own = ["after_fork 3", "on_worker_boot 3", "before_worker_boot 3"].map { |words| "#{words} template" }
        assert_equal [*own, "takes no number"], worker.get("/").body.lines(chomp: true)
        assert_equal 0, worker.drain
        assert_includes worker.log, "on_worker_shutdown 3"
      end
    end
  end
end

# frozen_string_literal: true

require "driver"

# The numbers of a worker, as `Puma.stats` has them.
class StatsTest < Minitest::Test
  include Driver

  APP = <<~'RUBY'
    require "json"
    HELD = Queue.new
    lambda do |env|
      HELD.pop if env["PATH_INFO"] == "/wait"
      HELD << true if env["PATH_INFO"] == "/go"
      [200, {}, [JSON.generate(Keepwarm.stats.merge("puma" => defined?(Puma) && Puma.stats))]]
    end
  RUBY

  def with(*options, source: APP, &block)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), source)
      Worker.with("app.rb", *options, directory: folder, &block)
    end
  end

  def test_a_worker_of_one_request_at_a_time
    with do |worker|
      worker.get("/")
      stats = worker.get("/").json
      assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, stats.delete("started_at"))
      # Nothing says that Puma is there.
      assert_equal({ "backlog" => 0, "running" => 1, "pool_capacity" => 0, "max_threads" => 1, "requests_count" => 2, "busy_threads" => 1, "puma" => nil }, stats)
    end
  end

  def test_a_worker_with_threads
    with("--threads", "3") do |worker|
      waits = worker.request("/wait")
      # Its thread takes it when the system lets the thread run.
      stats, asked = nil, 1
      1000.times do
        stats = worker.get("/").json
        asked += 1
        break if stats["busy_threads"] == 2
      end
      assert_equal [0, 3, 1, 3, asked, 2], stats.values_at("backlog", "running", "pool_capacity", "max_threads", "requests_count", "busy_threads")
      worker.get("/go")
      assert_equal 200, worker.response(waits).status
    end
  end

  def test_an_application_that_has_loaded_puma_asks_it
    with(source: "require 'puma'\n#{APP}") do |worker|
      stats = worker.get("/").json
      assert_equal stats.except("puma"), JSON.parse(stats["puma"])
    end
  end
end

# frozen_string_literal: true

require "driver"

# What an application does behind the end of its response, and what interrupts it within: never a frame that breaks the wire's rules.
class LateTest < Minitest::Test
  include Driver

  def with(source, *options, **more, &block)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), source)
      Worker.with("app.rb", *options, directory: folder, **more, &block)
    end
  end

  def each_kind(source, **more)
    [[], %w[--threads 2]].each { |options| with(source, *options, **more) { |worker| yield worker } }
  end

  # The worker still serves, and has broken no rule: the driver raises at a frame behind the end of its stream.
  def assert_sound(worker)
    assert_equal "after", worker.get("/after").body
    assert_equal 0, worker.drain
  end

  def test_a_body_is_asked_for_behind_the_end_of_the_response
    source = <<~'RUBY'
      KEPT = []
      lambda do |env|
        KEPT.each(&:call)
        KEPT.clear
        next [200, {}, ["after"]] if env["PATH_INFO"] == "/after"

        KEPT << env["keepwarm.send_continue"]
        env["rack.response_finished"] << ->(*) { env["keepwarm.send_continue"].call }
        [200, {}, ["begun"]]
      end
    RUBY
    each_kind(source) do |worker|
      assert_equal "begun", worker.response(worker.request(method: "POST", flags: EXPECT, length: 5)).body
      assert_sound(worker)
    end
  end

  READS_AT_THE_END = <<~'RUBY'
    class Body
      def initialize(input) = @input = input
      def each = yield("begun")
      def close
        @read = @input.read.bytesize
      rescue IOError => error
        warn "#{error.class}: #{error.message}"
      else
        warn "read #{@read}"
      end
    end
    ->(env) { [200, {}, env["PATH_INFO"] == "/after" ? ["after"] : Body.new(env["rack.input"])] }
  RUBY

  def test_what_has_come_of_a_body_is_read_behind_the_end_of_the_response
    each_kind(READS_AT_THE_END) do |worker|
      stream = worker.request(method: "POST", flags: 0, length: 200_000)
      4.times { |number| worker.data(stream, "x" * 50_000, last: number == 3) }
      assert_equal "begun", worker.response(stream).body
      assert_sound(worker)
    end
  end

  # What has not come then never comes (spec/wire.md §5).
  def test_the_rest_of_a_body_is_waited_for_behind_the_end_of_the_response
    each_kind(READS_AT_THE_END) do |worker|
      stream = worker.request(method: "POST", flags: 0, length: 200_000)
      2.times { worker.data(stream, "x" * 50_000) }
      assert_equal "begun", worker.response(stream).body
      assert_sound(worker)
      assert_match(/\AIOError: .*the response has ended/, worker.log)
    end
  end
end

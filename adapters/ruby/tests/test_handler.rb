# frozen_string_literal: true

require "driver"
require "fileutils"
require "keepwarm/handler"

# `rackup -s keepwarm`, with copies of `echo` and `env` in place of the program.
class HandlerTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)

  def with_site
    Dir.mktmpdir do |folder|
      folder = File.realpath(folder)
      FileUtils.cp("/bin/echo", File.join(folder, "echo"))
      FileUtils.cp("/usr/bin/env", File.join(folder, "env"))
      File.write(File.join(folder, "config.ru"), "run ->(env) { [200, {}, []] }\n")
      yield folder
    end
  end

  # Runs code in a fresh Ruby, in that directory; gives its output.
  def ruby(folder, code, program: "echo", **variables)
    env = { "KEEPWARM_BIN" => File.join(folder, program), "RACK_ENV" => nil, "RAILS_ENV" => nil, **variables.transform_keys(&:to_s) }
    IO.popen(env, [RbConfig.ruby, "-I", LIB, "-e", code], err: %i[child out], chdir: folder, &:read)
  end

  def run_with(folder, options, **more)
    ruby(folder, "require 'keepwarm/handler'; Keepwarm::Handler.run(nil, **#{options.inspect})", **more)
  end

  def test_rackup_starts_keepwarm
    with_site do |folder|
      code = 'require "rack"; Rack::Server.start(server: "keepwarm", config: "config.ru", Host: "::1", Port: 9393, environment: "none")'
      assert_equal "run config.ru --bind [::1]:9393\n", ruby(folder, code)
    end
  end

  def test_rackup_of_rack_3
    with_site do |folder|
      code = 'module Rackup; module Handler; def self.register(*names) = (puts names.inspect); end; end; ' \
             'require "rackup/handler/keepwarm"; Rackup::Handler::Keepwarm.run(nil, config: "config.ru")'
      assert_equal "[:keepwarm, Keepwarm::Handler]\nrun config.ru --bind 127.0.0.1:8080\n", ruby(folder, code)
    end
  end

  def test_addresses_and_workers
    with_site do |folder|
      [
        [{ Host: "localhost", Port: 3000 }, "--bind localhost:3000"],
        [{ Host: "0.0.0.0", Port: "0" }, "--bind 0.0.0.0:0"],
        [{ Host: "[::]" }, "--bind [::]:8080"],
        [{ Host: "/run/app.sock", Port: 9292 }, "--bind unix:/run/app.sock"],
        [{ Host: "./app.sock" }, "--bind unix:./app.sock"],
        [{ Workers: "3" }, "--bind 127.0.0.1:8080 --workers 3"]
      ].each { |options, expected| assert_equal "run config.ru #{expected}\n", run_with(folder, { config: "config.ru", **options }) }
    end
  end

  def test_the_environment_is_that_of_the_option_unless_one_is_set
    with_site do |folder|
      # `env` shows the variables: it takes `run` for a program, so the code unsets the arguments.
      code = "require 'keepwarm/handler'; def (Keepwarm::Handler).arguments(_) = []; " \
             "Keepwarm::Handler.run(nil, config: 'config.ru', environment: 'staging')"
      set = ->(**given) { ruby(folder, code, program: "env", **given).lines.grep(/\AR(ACK|AILS)_ENV=/).map(&:chomp) }
      assert_equal ["RACK_ENV=staging"], set.call
      assert_equal ["RACK_ENV=test"], set.call(RACK_ENV: "test")
      assert_equal ["RAILS_ENV=test"], set.call(RAILS_ENV: "test")
    end
  end

  def test_a_daemon_runs_in_the_directory_of_its_application
    with_site do |folder|
      code = "require 'keepwarm/handler'; def (Keepwarm::Program).exec(*line) = puts(Dir.pwd, *line); Dir.chdir('/'); " \
             "Keepwarm::Handler.run(nil, config: '#{folder}/config.ru', daemonize: true)"
      assert_equal [folder, "run", "#{folder}/config.ru", "--bind", "127.0.0.1:8080"], ruby(folder, code).lines.map(&:chomp)
      rails = "module Rails; def self.root = '#{folder}'; end; " + code.sub("'#{folder}/config.ru'", "'config.ru'")
      assert_equal [folder, "run", "config.ru", "--bind", "127.0.0.1:8080"], ruby(folder, rails).lines.map(&:chomp)
    end
  end

  def test_what_it_cannot_do_is_said
    assert_includes assert_raises(RuntimeError) { Keepwarm::Handler.run(->(_) {}) }.message, "keepwarm run config.ru"
    with_site do |folder|
      said = run_with(folder, { config: "config.ru" }, program: "nothing")
      assert_equal "keepwarm: KEEPWARM_BIN=#{folder}/nothing is not an executable program; set it to the path of the program `keepwarm`, or unset it\n", said
      refute_predicate $?, :success?
      File.write(File.join(folder, "config.ru"), "require 'keepwarm/handler'; Keepwarm::Handler.run(nil, config: 'config.ru')\n")
      Driver::Worker.with("config.ru", hello: false, directory: folder) do |worker|
        assert_equal 1, worker.wait
        assert_includes worker.log, "is already a worker of Keepwarm"
      end
    end
  end

  def test_the_gem_is_whole
    spec = Dir.chdir(File.expand_path("..", __dir__)) { Gem::Specification.load("keepwarm.gemspec") }
    assert_includes spec.files, "lib/rackup/handler/keepwarm.rb"
    assert_includes spec.files, "exe/keepwarm-worker"
    assert_equal %w[keepwarm keepwarm-worker], spec.executables
    assert_equal [], spec.dependencies
  end
end
